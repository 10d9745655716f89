"""Llama 3, the standard decoder: gated feed-forward with SiLU, plain norms, no biases."""

from workings.models.family import Family

FAMILY = Family(
    name="llama", model_type="llama", architecture="LlamaForCausalLM",
    switches={"activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "rms_norm_eps": 1e-5,
              "rope_theta": 500_000.0, "tied_embeddings": False})
