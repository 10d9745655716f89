"""Families whose layers have equal tensors: Gemma 1 to 3, Llama, OLMo 3, Qwen 2 and 3, SmolLM3.

YaRN stretches only the rotation of OLMo 3's global layers, as the published models were trained. transformers 5.12
stretches that of all layers, so it computes other numbers from an export.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workings.errors import RequestError
from workings.models.family import NEEDED, Family
from workings.models.shape import ModelShape

GEMMA_TERMS = "Gemma Terms of Use (ai.google.dev/gemma/terms)"
_LLAMA: dict[str, Any] = {"activation": "silu", "scaled_embeddings": False, "norm_plus_one": False}
"""Switches of Llama, and of all families but Gemma."""


class SlidingGemma(Family):
    """Base class of Gemma 2 and 3: sliding layers, soft caps, and their own scale of scores."""

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """Sliding windows, and another scale of scores than the default."""
        return replace(super().with_small_windows(shape), query_scale=0.125)

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Caps, scale, window and pattern."""
        return {"attention_softcap": float(config.get("attn_logit_softcapping") or 0.0),
                "final_softcap": float(config.get("final_logit_softcapping") or 0.0),
                "query_scale": float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
                **super().read_attention(config)}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The settings that `read_attention` reads."""
        # A whole number in published models, except for rounding.
        scalar = (shape.query_scale or shape.head_dim ** -0.5) ** -2
        config = super().write_attention(shape) | {
            "query_pre_attn_scalar": round(scalar) if abs(scalar - round(scalar)) < 1e-6 else scalar,
            "attn_logit_softcapping": shape.attention_softcap or None,
            "final_logit_softcapping": shape.final_softcap or None}
        if self.local_rotation:
            config["rope_local_base_freq"] = shape.local_rope_theta
        return config


def _rotated(layers: int, every: int) -> list[int]:
    """For each layer 1 if it rotates, and 0 for every n-th, which does not; ``every`` 0: all rotate."""
    return [int(every == 0 or (i + 1) % every != 0) for i in range(layers)]


class SmolLM3(Family):
    """Llama in which every fourth layer does not rotate its queries and keys."""

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The pattern of layers without rotation."""
        layers, every = int(config["num_hidden_layers"]), int(config.get("no_rope_layer_interval", 4))
        given = config.get("no_rope_layers")  # despite the name, 1 for a layer that rotates
        if given is not None:
            rotated = list(given)[:layers]  # transformers takes longer lists, too
            if rotated != _rotated(layers, every):
                every = rotated.index(0) + 1 if 0 in rotated else 0
            if rotated != _rotated(layers, every):
                raise RequestError(f"no_rope_layers cannot be {given}",
                                   f"every n-th layer without rotation, e.g. {_rotated(layers, every)}")
        return super().read_attention(config) | {"unrotated_pattern": every}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The settings that `read_attention` reads."""
        # transformers' default padding token is one that only the published vocabulary has.
        return {"no_rope_layers": _rotated(shape.layers, shape.unrotated_pattern), "use_sliding_window": False,
                "no_rope_layer_interval": shape.unrotated_pattern, "pad_token_id": None}


LLAMA = Family(
    name="llama", model_type="llama", architecture="LlamaForCausalLM",
    switches={**_LLAMA, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "tied_embeddings": False})
FAMILIES = (
    # The defaults of `ModelShape` are the switches of Gemma 1.
    Family(name="gemma", model_type="gemma", architecture="GemmaForCausalLM", ties_by_default=True, template="gemma",
           licence=GEMMA_TERMS),
    SlidingGemma(
        name="gemma2", model_type="gemma2", architecture="Gemma2ForCausalLM", ties_by_default=True, template="gemma",
        licence=GEMMA_TERMS, needed=(*NEEDED, "sliding_window"),
        switches={"post_norms": True, "attention_softcap": 50.0, "final_softcap": 30.0, "sliding_window": 4096,
                  "sliding_pattern": 2}),
    SlidingGemma(
        name="gemma3", model_type="gemma3_text", architecture="Gemma3ForCausalLM", ties_by_default=True,
        template="gemma", licence=GEMMA_TERMS, local_rotation=True, needed=(*NEEDED, "sliding_window"),
        # transformers' defaults, which published files leave out.
        multimodal={"gemma3": {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4,
                               "head_dim": 256, "max_position_embeddings": 131_072, "model_type": "gemma3_text"}},
        switches={"post_norms": True, "qk_norm": True, "rope_theta": 1_000_000.0, "local_rope_theta": 10_000.0,
                  "sliding_window": 512, "sliding_pattern": 6}),
    LLAMA,
    Family(name="olmo3", model_type="olmo3", architecture="Olmo3ForCausalLM", licence="Apache License 2.0",
           needed=(*NEEDED, "sliding_window"),
           switches={**_LLAMA, "norm_rounds_once": True, "pre_norms": False, "post_norms": True, "qk_norm": True,
                     "qk_norm_whole": True, "rope_theta": 500_000.0, "tied_embeddings": False,
                     "sliding_window": 4096, "sliding_pattern": 4}),
    Family(name="qwen2", model_type="qwen2", architecture="Qwen2ForCausalLM",
           switches={**_LLAMA, "qkv_bias": True, "rope_theta": 1_000_000.0}),
    Family(name="qwen3", model_type="qwen3", architecture="Qwen3ForCausalLM",
           switches={**_LLAMA, "qk_norm": True, "rope_theta": 1_000_000.0}),
    SmolLM3(name="smollm3", model_type="smollm3", architecture="SmolLM3ForCausalLM", ties_by_default=True,
            licence="Apache License 2.0",
            switches={**_LLAMA, "rope_theta": 5_000_000.0, "tied_embeddings": True, "unrotated_pattern": 4,
                      "rms_norm_eps": 1e-6}))
