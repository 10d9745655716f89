"""The most likely tokens of each position with their log probabilities, from which a student learns.

As in the loss, logits are computed in chunks of positions, and each device has its own part of the vocabulary.

Shape suffixes: A micro batches, B rows, S positions, D width, V vocabulary, C positions of a chunk, K tokens.
"""

from functools import partial

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import LossPartition, logits_of_chunk, map_chunks
from workings.engines.jax.model import unembedding
from workings.engines.jax.params_tree import Params
from workings.engines.jax.sharding import FSDP, TP
from workings.engines.jax.step import Arrays, StepSpec, all_hidden_states

TokensAndLogProbs = tuple[jax.Array, jax.Array]
"""Tokens (int32, the most likely one first), and their log probabilities (float32)."""


def most_likely(count: int, below: int, spec: StepSpec, params: Params, batch: Arrays) -> TokensAndLogProbs:
    """``[A, B, S, K]`` tokens and their log probabilities, as `TeachingEngine.most_likely` returns them."""
    def micro_batch_top_tokens(rows: Arrays) -> TokensAndLogProbs:
        hidden, head = all_hidden_states(spec, params, rows), unembedding(params)
        partition = LossPartition.from_head(head, spec.shape, spec.layout, spec.loss_chunk)
        tokens, log_probs = map_chunks(partition, partial(_of_chunk, partition, count, below), (hidden,),
                                       head.astype(hidden.dtype))
        supervised = rows["loss_mask"][..., None] > 0
        return jnp.where(supervised, tokens, 0), jnp.where(supervised, log_probs, 0.0)

    return jax.lax.map(micro_batch_top_tokens, batch)


def _of_chunk(partition: LossPartition, count: int, below: int, h: jax.Array, head: jax.Array,
              first: jax.Array | int) -> TokensAndLogProbs:
    """``[C, K]`` tokens and log probabilities of a chunk ``[C, D]``."""
    chunk_logits = logits_of_chunk(partition, h, jnp.zeros(h.shape[0], jnp.int32), head, first)
    eligible = jax.lax.broadcasted_iota(jnp.int32, chunk_logits.logits.shape, 1) + first < below
    logits, tokens = jax.lax.top_k(jnp.where(eligible, chunk_logits.logits, -jnp.inf), min(count, head.shape[0]))
    tokens = tokens + first
    if partition.vocabulary_parallel:
        # The best tokens of the whole vocabulary are among the best of each device.
        logits, tokens = (jax.lax.all_gather(x, (FSDP, TP), axis=1, tiled=True) for x in (logits, tokens))
        logits, order = jax.lax.top_k(logits, count)
        tokens = jnp.take_along_axis(tokens, order, 1)
    return tokens, logits - chunk_logits.log_z[:, None]
