"""What begins every row alike is computed once: the rows' first tokens see nothing but each other.

Everything but attention takes one token at a time, so a micro batch can be one line of its different tokens: the shared
prefix, then what follows it in each row. In attention the keys of a row are the prefix's and its own; there are queries
of the prefix once, and of each row those that are its own.

Shape suffixes: B rows, S positions of a row, P of the prefix, R = S - P, N = P + B R different tokens, filled up with
zeros to a multiple of `WHOLE`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from workings.engines.jax.attention import allowed_pairs, trained_attention

LEAST_WIDTH = 256
"""Narrower models are left alone: at width 64 nothing was gained."""
WHOLE = 16
"""Products over tokens, which give the gradients of weights, may take half as long again on a CPU where their number is
no multiple of this."""


@dataclass(frozen=True)
class SharedPrefix:
    """Rows ``[B, S, ...]``, and the line of what differs of them, ``[1, N, ...]``; without a prefix both are rows."""

    rows: int
    length: int
    prefix: int

    def line(self, x_BS: jax.Array) -> jax.Array:
        """Of the rows, what differs: the first row's prefix stands for everyone's."""
        return _line(x_BS[:1, :self.prefix], x_BS[:, self.prefix:]) if self.prefix else x_BS

    def apart(self, x_1N: jax.Array) -> jax.Array:
        """The rows again, each with the prefix before it."""
        if not self.prefix:
            return x_1N
        first, rest = self._split(x_1N)
        return jnp.concatenate([jnp.broadcast_to(first, (self.rows, *first.shape[1:])), rest], 1)

    def attention(self, q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                  slides: jax.Array, scale: float, softcap: float) -> jax.Array:
        """`plain_attention` of a line: q, k, v and what comes out are ``[1, N, heads, H]``, heads as there."""
        del slides  # the window says it all
        k, v, allowed, end = self.apart(k), self.apart(v), allowed_pairs(segment_ids, window), self.prefix
        q_first, q_rest = self._split(q)
        first = trained_attention(q_first, k[:1, :end], v[:1, :end], allowed[:1, :end, :end], scale, softcap)
        return _line(first, trained_attention(q_rest, k, v, allowed[:, end:], scale, softcap))

    def _split(self, x_1N: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The prefix ``[1, P, ...]`` and what follows it in each row ``[B, R, ...]``."""
        end = self.prefix + self.rows * (self.length - self.prefix)
        return x_1N[:, :self.prefix], x_1N[:, self.prefix:end].reshape(self.rows, -1, *x_1N.shape[2:])


def _line(first_1P: jax.Array, rest_BR: jax.Array) -> jax.Array:
    rest = rest_BR.reshape(1, -1, *rest_BR.shape[2:])
    spare = jnp.zeros((1, -(first_1P.shape[1] + rest.shape[1]) % WHOLE, *rest.shape[2:]), rest.dtype)
    return jnp.concatenate([first_1P, rest, spare], 1)
