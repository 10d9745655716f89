"""The most likely tokens of each position, and how likely they are: what a teacher says for others to learn from.

Logits exist for as many positions at a time as in the loss, on each device for its own part of the vocabulary.

Shape suffixes: A micro batches, B rows, S positions, D width, V vocabulary, C positions of a chunk, K tokens.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import LossPartition, chunks, logits_of_chunk
from workings.engines.jax.model import unembedding
from workings.engines.jax.params_tree import Params
from workings.engines.jax.sharding import FSDP, TP
from workings.engines.jax.step import Arrays, StepSpec, all_hidden_states

TokensAndLogProbs = tuple[jax.Array, jax.Array]
"""Tokens, int32, the most likely one first; and their log probabilities, float32."""


def most_likely(count: int, below: int, spec: StepSpec, params: Params, batch: Arrays) -> TokensAndLogProbs:
    """``[A, B, S, K]`` tokens with ids under ``below``, and their log probabilities among all; 0 where not supervised.

    ``below``: at most the model's vocabulary.
    """
    def micro_batch_top_tokens(rows: Arrays) -> TokensAndLogProbs:
        hidden, head = all_hidden_states(spec, params, rows), unembedding(params)
        # The same pieces as those of the loss: all logits of a micro batch at once may be larger than the model.
        partition = LossPartition.from_head(head, spec.shape, spec.layout, spec.loss_chunk)
        local: Any = partial(_local, partition, count, below)
        if spec.layout.size > 1:
            rows_spec, head_spec = partition.specs
            local = spec.layout.shard_map(local, (rows_spec, head_spec), (rows_spec, rows_spec))
        tokens, log_probs = local(hidden, head.astype(hidden.dtype))
        supervised = rows["loss_mask"][..., None] > 0
        return jnp.where(supervised, tokens, 0), jnp.where(supervised, log_probs, 0.0)

    return jax.lax.map(micro_batch_top_tokens, batch)


def _local(partition: LossPartition, count: int, below: int, hidden: jax.Array, head: jax.Array) -> TokensAndLogProbs:
    """The most likely tokens of one device's rows ``[B, S, D]``, chunk by chunk."""
    positions, first = hidden.shape[0] * hidden.shape[1], partition.first_token(head)
    chunk = partition.chunk_size(positions)

    def chunk_top_tokens(carry: None, h: jax.Array) -> tuple[None, TokensAndLogProbs]:
        h, = partition.gather((h,))
        chunk_logits = logits_of_chunk(partition, h, jnp.zeros(h.shape[0], jnp.int32), head, first)
        # Tokens beyond the student's vocabulary are never chosen; they still count in the normalization.
        eligible = jax.lax.broadcasted_iota(jnp.int32, chunk_logits.logits.shape, 1) + first < below
        logits, tokens = jax.lax.top_k(jnp.where(eligible, chunk_logits.logits, -jnp.inf), min(count, head.shape[0]))
        tokens = tokens + first
        if partition.vocabulary_parallel:
            # The best tokens of the whole vocabulary are among the best of each device.
            logits, tokens = (jax.lax.all_gather(x, (FSDP, TP), axis=1, tiled=True) for x in (logits, tokens))
            # Each device sends `count` candidates for a position, not its part of the vocabulary.
            logits, order = jax.lax.top_k(logits, count)
            tokens = jnp.take_along_axis(tokens, order, 1)
        return carry, (partition.own(tokens, chunk), partition.own(logits - chunk_logits.log_z[:, None], chunk))

    _, found = jax.lax.scan(chunk_top_tokens, None, chunks(hidden, chunk))
    tokens, log_probs = (x.reshape(-1, count)[:positions].reshape(*hidden.shape[:2], count) for x in found)
    return tokens, log_probs
