"""OLMo 3: norms after blocks alone, norms on queries and keys over all heads, three sliding layers in four.

YaRN stretches the rotation of global layers alone, as in the code that the published models were trained with and in
vLLM. transformers 5.12 stretches all layers, so that it opens our export of such a model with other numbers.
"""

from collections.abc import Mapping
from typing import Any

from workings.models.family import NEEDED, Family
from workings.models.hf_config import layer_types, read_sliding
from workings.models.shape import ModelShape


class Olmo3(Family):
    """Sliding layers, in ``config.json``."""

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Window and kinds of layers."""
        return read_sliding(config, self.switches["sliding_pattern"])

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The family's ``config.json``."""
        return {"sliding_window": shape.sliding_window, "layer_types": layer_types(shape)}


FAMILY = Olmo3(
    name="olmo3", model_type="olmo3", architecture="Olmo3ForCausalLM", licence="Apache License 2.0",
    needed=(*NEEDED, "sliding_window"),
    switches={"activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "norm_rounds_once": True,
              "pre_norms": False, "post_norms": True, "qk_norm": True, "qk_norm_whole": True, "rope_theta": 500_000.0,
              "tied_embeddings": False, "sliding_window": 4096, "sliding_pattern": 4})
