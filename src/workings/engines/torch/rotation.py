"""OLMo 3's stretched rotation (YaRN) in global layers alone, where transformers' class gives it to all layers.

Allen AI's OLMo-core trains its long models so, and vLLM, llama.cpp, transformers 4.57 and 5.23 run them so;
transformers 5.12 computes one rotation for all layers. Sliding layers see few positions, whose angles training on long
rows left as they were.
"""

from copy import deepcopy
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

GLOBAL, SLIDING = slice(0, 2), slice(2, 4)
"""Attribute of `TwoRotations` with a layer's cosines and sines."""


class TwoRotations(nn.Module):
    """Cosines and sines of global layers, then those of sliding ones."""

    def __init__(self, stretched: nn.Module, plain: nn.Module) -> None:
        super().__init__()
        self.stretched, self.plain = stretched, plain

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, ...]:
        """Four tensors ``[B, S, H]``."""
        return (*self.stretched(x, position_ids), *self.plain(x, position_ids))


def _take(part: slice, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Forward hook of a layer: of four tensors the two of its kind."""
    del module
    return args, kwargs | {"position_embeddings": kwargs["position_embeddings"][part]}


def keep_plain_where_layers_slide(model: PreTrainedModel) -> None:
    """Let sliding layers of an OLMo 3 whose rotation is stretched turn by the plain one; other models stay as are."""
    config = model.config
    # Later releases of transformers keep the settings by kind of layer, and their class turns each kind by its own.
    if config.model_type != "olmo3" or config.rope_parameters.get("rope_type", "default") == "default":
        return
    plain = deepcopy(config)
    plain.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
    base = model.base_model
    base.rotary_emb = TwoRotations(base.rotary_emb, type(base.rotary_emb)(plain))
    for layer, kind in zip(base.layers, config.layer_types, strict=True):
        part = SLIDING if kind == "sliding_attention" else GLOBAL
        layer.register_forward_pre_hook(partial(_take, part), with_kwargs=True)
