"""SmolLM3: Llama in which every fourth layer does not rotate its queries and keys."""

from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError
from workings.models.families.llama import FAMILY as LLAMA
from workings.models.family import Family
from workings.models.shape import ModelShape


def _rotated(layers: int, every: int) -> list[int]:
    return [int(every == 0 or (i + 1) % every != 0) for i in range(layers)]


class SmolLM3(Family):
    """Which layers rotate, in ``config.json``."""

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The pattern of layers without rotation."""
        layers, every = int(config["num_hidden_layers"]), int(config.get("no_rope_layer_interval", 4))
        given = config.get("no_rope_layers")  # 1 where a layer rotates, regardless of what the name says
        if given is not None:
            rotated = list(given)[:layers]  # transformers takes longer lists than there are layers
            if rotated != _rotated(layers, every):
                every = rotated.index(0) + 1 if 0 in rotated else 0
            if rotated != _rotated(layers, every):
                raise RequestError(f"no_rope_layers cannot be {given}", "every n-th layer without rotation, "
                                                               f"e.g. {_rotated(layers, every)}")
        return super().read_attention(config) | {"unrotated_pattern": every}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The family's ``config.json``, with the layers without rotation as a list and as an interval."""
        # transformers would fill in a padding token that only the published vocabulary has.
        return {"no_rope_layers": _rotated(shape.layers, shape.unrotated_pattern), "use_sliding_window": False,
                "no_rope_layer_interval": shape.unrotated_pattern, "pad_token_id": None}


FAMILY = SmolLM3(
    name="smollm3", model_type="smollm3", architecture="SmolLM3ForCausalLM", ties_by_default=True,
    licence="Apache License 2.0",
    switches={**LLAMA.switches, "rms_norm_eps": 1e-6, "rope_theta": 5_000_000.0, "tied_embeddings": True,
              "unrotated_pattern": 4})
