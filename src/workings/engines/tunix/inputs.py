"""Inputs of Tunix's trainer, whose loss shifts the tokens itself and does not read our targets.

Shape suffixes: B rows, S positions.
"""

from typing import Any

import jax
import jax.numpy as jnp


def model_input(tokens: jax.Array, supervised: jax.Array, real: jax.Array) -> dict[str, Any]:
    """Arguments of Tunix's default loss.

    Args:
        tokens: ``[B, S]``.
        supervised: ``[B, S]`` 1 where a token is to be predicted from those before it.
        real: ``[B, S]`` 0 at padding, which stands at the ends of rows.
    """
    index = jnp.arange(tokens.shape[1])
    seen = (real != 0)[:, None, :] & (index[None, :] <= index[:, None])[None]
    # Padding stands at the ends of rows, so positions are counted from the first slot.
    positions = jnp.broadcast_to(index, tokens.shape)
    return {"input_tokens": tokens, "input_mask": supervised, "positions": positions, "attention_mask": seen}
