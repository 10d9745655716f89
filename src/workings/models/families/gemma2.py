"""Gemma 2: norms on both sides of a block, capped scores and logits, every second layer with a sliding window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workings.models.families.gemma import LICENCE
from workings.models.family import NEEDED, Family
from workings.models.hf_config import layer_types, read_sliding
from workings.models.shape import ModelShape


class SlidingGemma(Family):
    """Base class of Gemma 2 and 3: sliding layers, soft caps, and their own scale of scores."""

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """Scores have their own scale as well."""
        return replace(super().with_small_windows(shape), query_scale=0.125)

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Caps, scale, window and pattern."""
        return {"attention_softcap": float(config.get("attn_logit_softcapping") or 0.0),
                "final_softcap": float(config.get("final_logit_softcapping") or 0.0),
                "query_scale": float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
                **read_sliding(config, self.switches["sliding_pattern"])}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The family's ``config.json``; the scale as the number whose inverse root it is."""
        # Whole in published models but for rounding on the way there and back, and written there as an integer.
        square = (shape.query_scale or shape.head_dim ** -0.5) ** -2
        config = {"query_pre_attn_scalar": round(square) if abs(square - round(square)) < 1e-6 else square,
                  "sliding_window": shape.sliding_window,
                  "attn_logit_softcapping": shape.attention_softcap or None,
                  "final_logit_softcapping": shape.final_softcap or None, "layer_types": layer_types(shape)}
        return config | {"rope_local_base_freq": shape.local_rope_theta} if self.local_rotation else config


FAMILY = SlidingGemma(
    name="gemma2", model_type="gemma2", architecture="Gemma2ForCausalLM", ties_by_default=True, template="gemma",
    licence=LICENCE, needed=(*NEEDED, "sliding_window"),
    switches={"post_norms": True, "attention_softcap": 50.0, "final_softcap": 30.0, "sliding_window": 4096,
              "sliding_pattern": 2})
