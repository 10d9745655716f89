"""What the supported families have in common and where they differ, as switches of `ModelShape`."""

from typing import Any

FAMILIES: dict[str, dict[str, Any]] = {
    "gemma": {},
    "gemma2": {
        "post_norms": True, "attention_softcap": 50.0, "final_softcap": 30.0,
        "sliding_window": 4096, "sliding_pattern": 2,
    },
    "gemma3": {
        "post_norms": True, "qk_norm": True, "rope_theta": 1_000_000.0, "local_rope_theta": 10_000.0,
        "sliding_window": 512, "sliding_pattern": 6,
    },
    "gpt2": {"scaled_embeddings": False, "norm_plus_one": False, "rms_norm_eps": 1e-5},  # the rest: gpt2.py
    "llama": {
        "activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0, "tied_embeddings": False,
    },
    "qwen2": {
        "activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "qkv_bias": True,
        "rope_theta": 1_000_000.0,
    },
    "qwen3": {
        "activation": "silu", "scaled_embeddings": False, "norm_plus_one": False, "qk_norm": True,
        "rope_theta": 1_000_000.0,
    },
}
"""Family -> the fields of `ModelShape` that differ from Gemma 1, with the values its published models use most."""
