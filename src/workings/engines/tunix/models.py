"""Tunix's own classes for Gemma 1, 2 and 3 at a given shape, and the shapes that they cannot be."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx

from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.shape import ModelShape

FAMILIES = ("gemma", "gemma2", "gemma3")
EPSILON, BASE, PATTERN = 1e-6, 10_000.0, 6
"""Constants in Tunix's classes: of the norms, of the rotation (Gemma 1 and 2), and of Gemma 3's layers."""


def check_shape(shape: ModelShape) -> None:
    """Raise `RequestError` for a model that Tunix's classes would compute differently, or not at all."""
    family_of(shape).check_engine("tunix", shape)
    # Tunix always scales by the root of the head size.
    scale = shape.query_scale or shape.head_dim ** -0.5
    differing = {
        f"family {shape.family}": shape.family not in FAMILIES,
        f"rms_norm_eps {shape.rms_norm_eps:g}": shape.rms_norm_eps != EPSILON,
        "a separate embedding for the logits": not shape.tied_embeddings,
        f"rope_theta {shape.rope_theta:g}": shape.family != "gemma3" and shape.rope_theta != BASE,
        f"a global layer every {shape.sliding_pattern}": shape.family == "gemma3" and shape.sliding_pattern != PATTERN,
        # Compared with a tolerance, because the product of two roots is seldom exactly 1.
        f"query_scale {scale:g}": abs(scale * shape.head_dim ** 0.5 - 1) > 1e-6,
        "soft caps": shape.family == "gemma3" and bool(shape.attention_softcap or shape.final_softcap),
    }
    if wrong := [what for what, differs in differing.items() if differs]:
        raise RequestError(f"engine tunix has no model with {', '.join(wrong)}",
                           "Gemma 1, 2 or 3 as published: Tunix's classes have the other values written into them",
                           "engine=jax")


def model_class(shape: ModelShape, dtype: Any = jnp.float32, *, remat: bool = False) -> Callable[[], nnx.Module]:
    """Function that makes Tunix's model of this shape, with undefined weights.

    Raises:
        RequestError: Tunix's classes cannot be this model.
    """
    check_shape(shape)
    return _gemma3(shape, dtype, remat) if shape.family == "gemma3" else _gemma(shape, remat)


def _sizes(shape: ModelShape) -> dict[str, Any]:
    return {"num_layers": shape.layers, "num_embed": shape.vocab_size, "embed_dim": shape.width,
            "hidden_dim": shape.mlp_width, "num_heads": shape.heads, "head_dim": shape.head_dim,
            "num_kv_heads": shape.kv_heads, "sliding_window_size": shape.sliding_window or None}


def _gemma(shape: ModelShape, remat: bool) -> Callable[[], nnx.Module]:
    from tunix.models.gemma import model as theirs

    kinds = (theirs.AttentionType.GLOBAL, theirs.AttentionType.LOCAL_SLIDING)
    config = theirs.ModelConfig(
        **_sizes(shape), final_logit_softcap=shape.final_softcap or None,
        attn_logits_soft_cap=shape.attention_softcap or None, use_post_attn_norm=shape.post_norms,
        use_post_ffw_norm=shape.post_norms, attention_types=tuple(kinds[shape.slides(i)] for i in range(shape.layers)),
        remat_config=theirs.RematConfig.DECODER if remat else theirs.RematConfig.NONE)
    # Only shapes are asked of it (`nnx.eval_shape`), so the random weights of its constructor are never made.
    return lambda: theirs.Gemma(config, rngs=nnx.Rngs(0))


def _gemma3(shape: ModelShape, dtype: Any, remat: bool) -> Callable[[], nnx.Module]:
    from tunix.models.gemma3 import model as theirs

    config = theirs.ModelConfig(
        **_sizes(shape), local_base_frequency=int(shape.local_rope_theta), global_base_frequency=int(shape.rope_theta),
        global_scale_factor=shape.rope_scaling, param_dtype=dtype,
        remat_config=theirs.RematConfig.DECODER if remat else theirs.RematConfig.NONE)
    return lambda: theirs.Gemma3(config, rngs=nnx.Rngs(0))
