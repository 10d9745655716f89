"""Qwen 2 and 2.5: Llama with biases on queries, keys and values, for which ``config.json`` has no key."""

from workings.models.family import Family

FAMILY = Family(
    name="qwen2", model_type="qwen2", architecture="Qwen2ForCausalLM",
    switches={"activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "qkv_bias": True,
              "rope_theta": 1_000_000.0})
