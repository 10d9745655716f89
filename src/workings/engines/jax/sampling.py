"""The next token of every row: the likeliest one, or one drawn at a temperature.

Shape suffixes: B rows, D width, V vocabulary.
"""

import jax
import jax.numpy as jnp

from workings.engines.jax.model import final_logits, final_norm, unembedding
from workings.engines.jax.params_tree import Params
from workings.engines.jax.sharding import FSDP, TP
from workings.engines.jax.step import StepSpec


def next_logits(spec: StepSpec, params: Params, x: jax.Array) -> jax.Array:
    """``[B, V]`` float32 logits of hidden states ``[B, D]``; where the vocabulary is split, each device's own part."""
    hidden = final_norm(x, params, spec.shape)
    head = unembedding(params)
    if not spec.layout.splits_vocabulary(head.shape[0]):
        return final_logits(hidden, head, spec.shape)
    hidden = spec.layout.constrain(hidden, spec.layout.copies)
    return spec.layout.constrain(final_logits(hidden, head, spec.shape), spec.layout.copies, (FSDP, TP))


def greedy(logits: jax.Array) -> jax.Array:
    """``[B]`` int32: the likeliest token; of equals the first."""
    # Two plain reductions, which a CPU does in vectors; XLA's argmax carries pairs.
    last = logits.shape[-1] - 1
    # NaN equals nothing: a row that holds one gives the last token.
    largest = logits == jnp.max(logits, -1, keepdims=True)
    return jnp.min(jnp.where(largest, jnp.arange(last + 1, dtype=jnp.int32), last), -1)


def draw(spec: StepSpec, logits: jax.Array, temperature: jax.Array, seeds: jax.Array,
         count: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``[B]`` int32: one token from ``softmax(logits / temperature)``, and ``[B]`` float32: its log probability there.

    The largest sum of a logit and Gumbel noise wins. The noise of a row comes from its own seed and ``count`` alone, by
    a generator that gives the same bits on every device and mesh.
    """
    def noise(seed: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), count)
        return jax.random.gumbel(key, logits.shape[1:], jnp.float32)

    drawn = jax.vmap(noise)(seeds)
    if spec.layout.splits_vocabulary(logits.shape[1]):
        drawn = spec.layout.constrain(drawn, spec.layout.copies, (FSDP, TP))
    scaled = logits / temperature
    token = greedy(scaled + drawn)
    # Compared and summed instead of gathered: where the vocabulary is split, each device adds its own part.
    hit = jax.lax.broadcasted_iota(jnp.int32, scaled.shape, 1) == token[:, None]
    return token, jnp.sum(jnp.where(hit, scaled, 0.0), -1) - jax.nn.logsumexp(scaled, -1)
