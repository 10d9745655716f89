"""Qwen 3: Llama with norms on queries and keys."""

from workings.models.family import Family

FAMILY = Family(
    name="qwen3", model_type="qwen3", architecture="Qwen3ForCausalLM",
    switches={"activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "qk_norm": True,
              "rope_theta": 1_000_000.0})
