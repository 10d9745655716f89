"""GPT-2's tensors and ``config.json``, which differ from those of all other families here.

Layer norms with biases, learned positions, one matrix for query, key and value, a feed-forward without gate, biases
everywhere, and matrices stored ``[in, out]`` (transformers' ``Conv1D``), applied as ``x @ W + b``.
"""

from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError
from workings.models.shape import ModelShape

PREFIX = "transformer."
EMBEDDING, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"
PROJECTIONS = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
"""The matrices of one layer, in the order in which they are applied."""
NEEDED = ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions")
FIXED = {"activation_function": "gelu_new", "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
         "reorder_and_upcast_attn": False, "add_cross_attention": False, "tie_word_embeddings": True}
"""Settings that every published GPT-2 has and that this package does not vary."""


def layer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors of one layer: name below ``transformer.h.<i>.`` -> shape."""
    width, inner = shape.width, shape.mlp_width
    return {
        "ln_1.weight": (width,), "ln_1.bias": (width,),
        "attn.c_attn.weight": (width, 3 * width), "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,), "ln_2.bias": (width,),
        "mlp.c_fc.weight": (width, inner), "mlp.c_fc.bias": (inner,),
        "mlp.c_proj.weight": (inner, width), "mlp.c_proj.bias": (width,),
    }


def outer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors outside the layers: name -> shape. The embedding is the output matrix as well."""
    width = shape.width
    return {EMBEDDING: (shape.vocab_size, width), POSITIONS: (shape.context, width),
            "transformer.ln_f.weight": (width,), "transformer.ln_f.bias": (width,)}


def layer_name(layer: int, name: str) -> str:
    """Full name of a layer's tensor."""
    return f"transformer.h.{layer}.{name}"


def check(shape: ModelShape) -> None:
    """Raises `RequestError` for sizes that a GPT-2 cannot have."""
    if shape.heads * shape.head_dim != shape.width or shape.kv_heads != shape.heads:
        raise RequestError(
            f"heads: {shape.heads}, kv_heads: {shape.kv_heads}, head_dim: {shape.head_dim}, width: {shape.width}",
            "heads * head_dim equal to width, and as many kv_heads as heads, in a gpt2 model",
            f"kv_heads: {shape.heads}, head_dim: {max(2, shape.width // shape.heads)}")


def from_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `ModelShape` (without family) from the content of a ``config.json``."""
    missing = [key for key in NEEDED if key not in config]
    if missing:
        raise RequestError(f"a config.json without {', '.join(missing)}", "a complete Hugging Face config.json")
    other = [f"{key}: {config[key]}" for key, value in FIXED.items() if config.get(key, value) != value]
    if other:
        raise RequestError(", ".join(other) + " in a gpt2 model",
                           ", ".join(f"{key}: {value}" for key, value in FIXED.items()))
    width, heads = int(config["n_embd"]), int(config["n_head"])
    return {"vocab_size": int(config["vocab_size"]), "layers": int(config["n_layer"]), "width": width,
            "mlp_width": int(config.get("n_inner") or 4 * width), "heads": heads, "kv_heads": heads,
            "head_dim": width // heads, "context": int(config["n_positions"]),
            "rms_norm_eps": float(config.get("layer_norm_epsilon", 1e-5))}


def to_config(shape: ModelShape) -> dict[str, Any]:
    """Content of a ``config.json`` that transformers opens as this very model."""
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": shape.vocab_size,
            "n_embd": shape.width, "n_inner": shape.mlp_width, "n_layer": shape.layers, "n_head": shape.heads,
            "n_positions": shape.context, "layer_norm_epsilon": shape.rms_norm_eps, **FIXED}
