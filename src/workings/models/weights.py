"""Names and shapes of a model's tensors, exactly as Hugging Face's checkpoints carry them.

Sizes: V vocabulary, D width, F feed-forward width, N query heads, K key/value heads, H head size.
Matrices are stored ``[out, in]`` and applied as ``x @ W.T``; GPT-2's names and shapes are in `gpt2.py`.
"""

from math import prod

from workings.models import gpt2
from workings.models.shape import ModelShape

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
"""The matrices of one layer, in the order in which they are applied."""


def projections(shape: ModelShape) -> tuple[str, ...]:
    """Names of the matrices of one layer, in the order in which they are applied."""
    return gpt2.PROJECTIONS if shape.family == "gpt2" else PROJECTIONS


def layer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors of one layer: name below ``model.layers.<i>.`` -> shape."""
    if shape.family == "gpt2":
        return gpt2.layer_shapes(shape)
    width, inner = shape.width, shape.mlp_width
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (query, width),
        "self_attn.k_proj.weight": (key, width),
        "self_attn.v_proj.weight": (key, width),
        "self_attn.o_proj.weight": (width, query),
        "post_attention_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }
    if shape.qkv_bias:
        shapes |= {"self_attn.q_proj.bias": (query,), "self_attn.k_proj.bias": (key,), "self_attn.v_proj.bias": (key,)}
    if shape.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (shape.head_dim,), "self_attn.k_norm.weight": (shape.head_dim,)}
    if shape.post_norms:
        shapes |= {"pre_feedforward_layernorm.weight": (width,), "post_feedforward_layernorm.weight": (width,)}
    return shapes


def outer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors outside the layers: name -> shape. Tied embeddings have no ``lm_head.weight``."""
    if shape.family == "gpt2":
        return gpt2.outer_shapes(shape)
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (shape.vocab_size, shape.width), FINAL_NORM: (shape.width,)}
    if not shape.tied_embeddings:
        shapes[HEAD] = (shape.vocab_size, shape.width)
    return shapes


def layer_name(layer: int, name: str) -> str:
    """Full name of a layer's tensor: ``layer_name(3, "mlp.up_proj.weight")``."""
    return f"model.layers.{layer}.{name}"


def tensor_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model: full name -> shape."""
    inner = layer_shapes(shape)
    full_name = gpt2.layer_name if shape.family == "gpt2" else layer_name
    layers = {full_name(i, name): size for i in range(shape.layers) for name, size in inner.items()}
    return outer_shapes(shape) | layers


def parameter_count(shape: ModelShape) -> int:
    """Number of stored parameters; a tied embedding counts once."""
    inner = sum(prod(size) for size in layer_shapes(shape).values())
    return sum(prod(size) for size in outer_shapes(shape).values()) + shape.layers * inner
