"""The most likely tokens of each position, and how likely they are: what a teacher says for others to learn from.

Logits exist for as many positions at a time as in the loss, on each device for its own part of the vocabulary.

Shape suffixes: A micro batches, B rows, S positions, D width, V vocabulary, C positions of a chunk, K tokens.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import LossPartition, chunks, logits_of_chunk
from workings.engines.jax.model import unembedding
from workings.engines.jax.params_tree import Params
from workings.engines.jax.sharding import FSDP, TP, P
from workings.engines.jax.step import Arrays, StepSpec, all_hidden_states

TokensAndLogProbs = tuple[jax.Array, jax.Array]
"""Tokens, int32, the most likely one first; and their log probabilities, float32."""


def make_most_likely(count: int, below: int, spec: StepSpec) -> Callable[[Params, Arrays], TokensAndLogProbs]:
    """``[A, B, S, K]`` tokens with ids under ``below``, and their log probabilities among all; 0 where not supervised.

    Args:
        count: K, tokens of a position.
        below: upper limit of the token ids (exclusive); at most the model's vocabulary.
        spec: of the model.
    """
    def most_likely(params: Params, batch: Arrays) -> TokensAndLogProbs:
        def micro_batch_top_tokens(rows: Arrays) -> TokensAndLogProbs:
            hidden, head = all_hidden_states(spec, params, rows), unembedding(params)
            # The same pieces as those of the loss: all logits of a micro batch at once may be larger than the model.
            partition = LossPartition.from_head(head, spec.shape, spec.layout, spec.loss_chunk)
            tokens, log_probs = _sharded(partition, count, below)(hidden, head.astype(hidden.dtype))
            supervised = rows["loss_mask"][..., None] > 0
            return jnp.where(supervised, tokens, 0), jnp.where(supervised, log_probs, 0.0)

        return jax.lax.map(micro_batch_top_tokens, batch)

    return most_likely


def _sharded(partition: LossPartition, count: int, below: int) -> Any:
    local = partial(_local, partition, count, below)
    if partition.layout.size == 1:
        return local
    rows, own = P(partition.layout.row_axes), P((FSDP, TP)) if partition.vocabulary_parallel else P()
    return jax.shard_map(local, mesh=partition.layout.mesh, in_specs=(rows, own), out_specs=(rows, rows),
                         check_vma=False)


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
        log_probs = logits - chunk_logits.log_z[:, None]
        if partition.vocabulary_parallel:  # this device's own positions out of the gathered chunk
            start = jax.lax.axis_index(FSDP) * chunk
            tokens, log_probs = (jax.lax.dynamic_slice_in_dim(x, start, chunk) for x in (tokens, log_probs))
        return carry, (tokens, log_probs)

    _, most_likely = jax.lax.scan(chunk_top_tokens, None, chunks(hidden, chunk))
    tokens, log_probs = (x.reshape(-1, count)[:positions].reshape(*hidden.shape[:2], count) for x in most_likely)
    return tokens, log_probs
