"""Masked next-token loss as a sum, so that micro batches, devices and batches add up exactly.

Two implementations with the same result; both compute gradients while the logits exist. `_unpartitioned` has all logits
in memory at once. `_local` has those of one chunk of positions at a time, and on several devices each device has its
own part of the vocabulary: neither the logits nor the embedding is ever whole anywhere, and the gradient of the
embedding stays on the device that owns it.

A position may have several targets, each with its own weight: its loss is then the sum over them.

Shape suffixes: B rows, S positions, D width, V vocabulary, C positions of a chunk, K targets of a position.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.models.shape import ModelShape

MAX_DEVICES_WITH_WHOLE_CHUNKS = 8
"""Up to this many devices contribute a whole chunk to what is gathered; more devices contribute smaller chunks."""
Gradient = Literal["none", "hidden", "both"]
"""Gradients that are computed with the loss: none, that of the hidden states, or those of hidden states and head."""


@dataclass(frozen=True)
class LossPartition:
    """Split of the loss: positions per chunk and device, and whether each device has a part of the vocabulary."""

    layout: Layout
    chunk: int
    softcap: float
    vocabulary_parallel: bool

    @property
    def is_unpartitioned(self) -> bool:
        """Whether the loss is not split at all."""
        return self.layout.shape.devices == 1 and self.chunk == 0

    @property
    def specs(self) -> tuple[P, P]:
        """Partitions of rows and of the head."""
        return P(self.layout.row_axes), P((FSDP, TP)) if self.vocabulary_parallel else P()

    @classmethod
    def from_head(cls, head: jax.Array, shape: ModelShape, layout: Layout, chunk: int) -> "LossPartition":
        """The split of the loss of a head ``[V, D]``."""
        return cls(layout, chunk, shape.final_softcap, layout.splits_vocabulary(head.shape[0]))

    def chunk_size(self, count: int) -> int:
        """Positions of a chunk, for a device that has ``count`` positions."""
        chunk = min(self.chunk or count, count)
        if self.chunk and self.vocabulary_parallel:
            # A gathered chunk has those of all devices, so its logits would grow with their number.
            return max(1, min(chunk, self.chunk * MAX_DEVICES_WITH_WHOLE_CHUNKS // self.layout.shape.fsdp))
        return chunk

    def first_token(self, head: jax.Array) -> jax.Array | int:
        """The token that the first row of this device's part of the head belongs to."""
        return jax.lax.axis_index((FSDP, TP)) * head.shape[0] if self.vocabulary_parallel else 0

    def gather(self, xs: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """The chunks of all devices that share the vocabulary, joined; without sharing, this device's own chunk."""
        if not self.vocabulary_parallel:
            return xs
        return tuple(jax.lax.all_gather(x, FSDP, axis=0, tiled=True) for x in xs)


def loss_sum(hidden: jax.Array, head: jax.Array, targets: jax.Array, weights: jax.Array, shape: ModelShape,
             layout: Layout, chunk: int) -> jax.Array:
    """Sum of ``weights * loss``; on one device and without chunks from all logits at once, else chunk by chunk.

    ``hidden`` ``[B, S, D]``, ``head`` ``[V, D]``, ``targets`` and ``weights`` ``[B, S]`` or ``[B, S, K]``; ``chunk``:
    positions of one device whose logits exist at one time; 0: all.
    """
    partition = LossPartition.from_head(head, shape, layout, chunk)
    # Cast once, outside of the chunks; the cast's own derivative brings the gradient back to the head's format.
    return split_loss_sum(partition, hidden, head.astype(hidden.dtype), targets, weights)


def with_temperature(hidden: jax.Array, shape: ModelShape, temperature: float) -> tuple[jax.Array, ModelShape]:
    """Hidden states and a shape that give the same logits divided by ``temperature``."""
    if temperature == 1:
        # Without a division by 1, which would be another program with the same result.
        return hidden, shape
    # c tanh(x / c) / T is c' tanh(x' / c') with c' = c / T and x' = x / T: the soft cap is divided like the logits.
    return hidden / temperature, replace(shape, final_softcap=shape.final_softcap / temperature)


def target_log_probs(hidden: jax.Array, head: jax.Array, targets: jax.Array, shape: ModelShape, layout: Layout,
                     chunk: int) -> jax.Array:
    """Float32 log probability of every target, in the targets' shape; no derivative. Arguments as in `loss_sum`."""
    partition = LossPartition.from_head(head, shape, layout, chunk)

    def log_probs(h: jax.Array, t: jax.Array, head: jax.Array, first: jax.Array | int) -> jax.Array:
        return logits_of_chunk(partition, h, t, head, first).log_probs

    return map_chunks(partition, log_probs, (hidden, targets), head.astype(hidden.dtype))


def map_chunks(partition: LossPartition, function: Callable[..., Any], rows: tuple[jax.Array, ...],
               head: jax.Array) -> Any:
    """Arrays ``[B, S, ...]`` of ``function(*chunk of each of rows, head, first)``, chunk by chunk.

    ``rows``: ``[B, S, ...]`` each; ``head`` is a device's part, from token ``first`` on.
    """
    def local(rows: tuple[jax.Array, ...], head: jax.Array) -> Any:
        (batch, length), first = rows[0].shape[:2], partition.first_token(head)
        chunk = partition.chunk_size(batch * length)

        def of_chunk(carry: None, xs: tuple[jax.Array, ...]) -> tuple[None, Any]:
            found = function(*partition.gather(xs), head, first)
            if partition.vocabulary_parallel:  # this device's own positions out of the gathered chunk
                start = jax.lax.axis_index(FSDP) * chunk
                found = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), found)
            return carry, found

        _, found = jax.lax.scan(of_chunk, None, tuple(chunks(x, chunk) for x in rows))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:batch * length].reshape(
            batch, length, *x.shape[2:]), found)

    if partition.layout.shape.devices == 1:
        return local(rows, head)
    rows_spec, head_spec = partition.specs
    return partition.layout.shard_map(local, (rows_spec, head_spec), rows_spec)(rows, head)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def split_loss_sum(partition: LossPartition, hidden: jax.Array, head: jax.Array, targets: jax.Array,
                   weights: jax.Array) -> jax.Array:
    """Sum of ``weights * loss``; its gradient is computed in the same pass, so logits are computed once."""
    return _sharded(partition, "none")(hidden, head, targets, weights)


def _forward(partition: LossPartition, hidden: Any, head: Any, targets: Any, weights: Any) -> tuple[jax.Array, Any]:
    # A frozen head (adapters only) has no gradient, and nothing of its size is allocated.
    loss, *gradients = _sharded(partition, "both" if head.perturbed else "hidden")(
        hidden.value, head.value, targets.value, weights.value)
    return loss, gradients


def _backward(partition: LossPartition, gradients: list[jax.Array], ct: jax.Array) -> tuple[Any, ...]:
    # `_unpartitioned` rounds the factor before the product, `_local` rounds the product: in bfloat16 the two differ.
    scaled = [x * ct.astype(x.dtype) if partition.is_unpartitioned else (x * ct).astype(x.dtype) for x in gradients]
    return *scaled, *[None] * (4 - len(scaled))


split_loss_sum.defvjp(_forward, _backward, symbolic_zeros=True)


def _sharded(partition: LossPartition, gradient: Gradient) -> Any:
    """The loss as a function of whole arrays: each device computes its own rows, and its own part of the vocabulary."""
    if partition.is_unpartitioned:
        return partial(_unpartitioned, partition, gradient)
    rows, own = partition.specs
    out = {"none": P(), "hidden": (P(), rows), "both": (P(), rows, own)}[gradient]
    # The collectives are not differentiated: both gradients are outputs of `_local`.
    return partition.layout.shard_map(partial(_local, partition, gradient), (rows, own, rows, rows), out)


def _unpartitioned(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
                   weights: jax.Array) -> Any:
    """The loss of one device, with all logits in memory at once."""
    h = hidden.reshape(-1, hidden.shape[-1])
    t, w = (x.reshape(-1, *x.shape[2:]) for x in (targets, weights))
    loss, d_logits = _add_loss(partition, gradient, jnp.zeros(()), h, head, t, w, 0)
    if d_logits is None:
        return loss
    # Gradients of the loss itself; `_backward` multiplies by the derivative with respect to the loss.
    # Summed over the vocabulary in float32: a bfloat16 sum of 256,000 terms would lose most of them.
    d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
    d_hidden = d_h.astype(hidden.dtype).reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    # h comes first: the compiler for CPUs transposes the left operand, and h is the narrow one.
    d_head = jnp.einsum("cd,cv->dv", h, d_logits, preferred_element_type=jnp.float32)
    return loss, d_hidden, d_head.T.astype(head.dtype)


def chunks(x: jax.Array, chunk: int) -> jax.Array:
    """``[B, S, ...]`` as ``[n, C, ...]``, padded with zeros; padding has weight zero."""
    flat = x.reshape(-1, *x.shape[2:])
    flat = jnp.pad(flat, ((0, -flat.shape[0] % chunk), *[(0, 0)] * (flat.ndim - 1)))
    return flat.reshape(-1, chunk, *flat.shape[1:])


def _local(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
           weights: jax.Array) -> Any:
    """One device's share of the loss; each chunk is gathered from all devices that share the vocabulary."""
    count = hidden.shape[0] * hidden.shape[1]
    chunk, first = partition.chunk_size(count), partition.first_token(head)
    vocabulary_parallel = partition.vocabulary_parallel

    def add_chunk(carry: tuple[jax.Array, jax.Array], xs: tuple[jax.Array, ...]) -> tuple[Any, jax.Array]:
        h, t, w = partition.gather(xs)
        loss, d_logits = _add_loss(partition, gradient, carry[0], h, head, t, w, first)
        if d_logits is None:
            return (loss, carry[1]), jnp.zeros(())
        # A float32 sum over chunks, of the size of this device's part of the head, rounded once at the end.
        d_head = carry[1]
        if gradient == "both":
            d_head = d_head + jnp.einsum("cv,cd->vd", d_logits, h, preferred_element_type=jnp.float32)
        d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
        if vocabulary_parallel:
            # Each device has the part that its own tokens contribute. The sum is scattered back to each row's device.
            d_h = jax.lax.psum_scatter(jax.lax.psum(d_h, TP), FSDP, scatter_dimension=0, tiled=True)
        return (loss, d_head), d_h.astype(h.dtype)

    # Without a gradient of the head, a scalar is carried in its place.
    start = (jnp.zeros(()), jnp.zeros(head.shape if gradient == "both" else (), jnp.float32))
    xs = tuple(chunks(x, chunk) for x in (hidden, targets, weights))
    (loss, d_head), d_hidden = jax.lax.scan(add_chunk, start, xs)
    # Devices that share the vocabulary have each counted the rows of all devices, the others only their own rows.
    if not vocabulary_parallel:
        # Over rows only: devices along `tp` have the same rows.
        loss = jax.lax.psum(loss, FSDP)
    loss = partition.layout.sum_over_copies(loss)
    if gradient == "none":
        return loss
    d_hidden = d_hidden.reshape(-1, hidden.shape[-1])[:count].reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    if not vocabulary_parallel:
        # The head is a copy on each device here, so every device must get the whole sum.
        d_head = jax.lax.psum(d_head, FSDP)
    d_head = partition.layout.sum_over_copies(d_head)
    return loss, d_hidden, d_head.astype(head.dtype)


def _add_loss(partition: LossPartition, gradient: Gradient, loss: jax.Array, h: jax.Array, head: jax.Array,
              t: jax.Array, w: jax.Array, first: jax.Array | int) -> tuple[jax.Array, jax.Array | None]:
    """The loss so far plus that of these positions, and the gradient ``[C, V]`` of their logits where it is needed.

    ``h`` ``[C, D]``; ``head`` ``[V, D]``, this device's part, from token ``first`` on; ``t`` and ``w``: targets and
    weights, ``[C]`` or ``[C, K]``.
    """
    chunk = logits_of_chunk(partition, h, t, head, first)
    loss = loss + (jnp.sum(-chunk.log_probs * w) if t.ndim > 1 else
                   jnp.sum((chunk.log_z - chunk.target_logit) * w))
    if gradient == "none":
        return loss, None
    # The derivative of the log of the sum is the softmax; it is rounded to h's dtype for the two products that follow.
    softmax = jnp.exp(chunk.logits - chunk.log_z[:, None])
    if isinstance(chunk.targets, TargetIndices):
        # The targets' weights add up to that of the position, times the softmax. A scatter of K numbers a position:
        # comparing every logit with each target would read all logits K times.
        at_targets = jnp.arange(len(softmax))[:, None], chunk.targets.indices
        d_logits = (softmax * w.sum(-1, keepdims=True)).at[at_targets].add(-(w * chunk.targets.on_this_shard))
        return loss, (d_logits * chunk.slope).astype(h.dtype)
    return loss, ((softmax - chunk.targets) * w[:, None] * chunk.slope).astype(h.dtype)


class TargetIndices(NamedTuple):
    """Indices of the targets of each position in this device's part of the vocabulary."""

    indices: jax.Array
    """``[C, K]``; any valid index where the target belongs to another device."""
    on_this_shard: jax.Array
    """``[C, K]`` bool: whether the target is in this device's part."""


class _ChunkLogits(NamedTuple):
    """Logits of a chunk of positions, their normalizer and the logits of the targets."""

    logits: jax.Array
    """``[C, V]`` float32, this device's part of the vocabulary."""
    slope: jax.Array | float
    """``[C, V]`` derivative of the soft cap."""
    targets: jax.Array | TargetIndices
    """``[C, V]`` mask that is true at the target; several targets have indices."""
    log_z: jax.Array
    """``[C]`` log of the sum of exponentials over the whole vocabulary."""
    target_logit: jax.Array
    """``[C]`` (or ``[C, K]``)."""

    @property
    def log_probs(self) -> jax.Array:
        """``[C]`` (or ``[C, K]``) log probability of the target."""
        return self.target_logit - (self.log_z[:, None] if self.target_logit.ndim > 1 else self.log_z)


def logits_of_chunk(partition: LossPartition, h: jax.Array, t: jax.Array, head: jax.Array, first: jax.Array | int
                    ) -> _ChunkLogits:
    """Logits of a chunk; arguments as in `_add_loss`."""
    slope: jax.Array | float = 1.0
    logits = jnp.einsum("cd,vd->cv", h, head, preferred_element_type=jnp.float32)
    if partition.softcap:
        tanh = jnp.tanh(logits / partition.softcap)
        logits, slope = partition.softcap * tanh, 1.0 - jnp.square(tanh)
    targets: jax.Array | TargetIndices
    if t.ndim > 1:
        # Clipped, because a gather needs valid indices everywhere.
        targets = TargetIndices(jnp.clip(t - first, 0, head.shape[0] - 1), (t >= first) & (t < first + head.shape[0]))
        target_logit = jnp.where(targets.on_this_shard, jnp.take_along_axis(logits, targets.indices, 1), 0.0)
    else:
        # Compare and sum instead of gather: it fuses, and its gradient needs no scatter (on a CPU a loop over scalars).
        targets = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) + first == t[:, None]
        target_logit = jnp.sum(jnp.where(targets, logits, 0.0), -1)
    # After subtracting the largest logit of the whole vocabulary no exponential overflows, and one of them is 1.
    top = jnp.max(logits, -1)
    if partition.vocabulary_parallel:
        top = jax.lax.pmax(top, (FSDP, TP))
    total = jnp.sum(jnp.exp(logits - top[:, None]), -1)
    if partition.vocabulary_parallel:
        # Target logits are 0 on all devices but the owner's. The two sums, `[C]` each, travel together.
        total, target_logit = jax.lax.psum((total, target_logit), (FSDP, TP))
    return _ChunkLogits(logits, slope, targets, jnp.log(total) + top, target_logit)
