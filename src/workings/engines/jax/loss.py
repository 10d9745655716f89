"""Masked next-token loss, as a sum over positions that can be added up over micro batches and devices.

There are two implementations. `_unpartitioned` has all logits in memory at once. `_local` has the logits of one chunk
of positions at a time; on several devices, each device has its own part of the vocabulary, of the logits and of the
embedding's gradient. Both compute gradients while the logits exist, so that logits are computed once.

A position may have several targets, each with its own weight; its loss is then the sum over them.

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
"""Up to this many devices gather whole chunks from each other; more devices gather smaller chunks."""
Gradient = Literal["none", "hidden", "both"]
"""Gradients computed with the loss. Results: ``loss``, ``(loss, d_hidden)``, or ``(loss, d_hidden, d_head)``."""


@dataclass(frozen=True)
class LossPartition:
    """How the loss is split into chunks of positions, and over devices."""

    layout: Layout
    chunk: int
    """Positions of one device whose logits exist at one time; 0: all."""
    softcap: float
    vocabulary_parallel: bool
    """Whether each device has its own part of the vocabulary."""

    @property
    def is_unpartitioned(self) -> bool:
        """Whether the loss is not split at all."""
        return self.layout.shape.devices == 1 and self.chunk == 0

    @property
    def specs(self) -> tuple[P, P]:
        """Partitions of rows, and of the head."""
        return P(self.layout.row_axes), P((FSDP, TP)) if self.vocabulary_parallel else P()

    @classmethod
    def from_head(cls, head: jax.Array, shape: ModelShape, layout: Layout, chunk: int) -> "LossPartition":
        """The split of the loss of a head ``[V, D]``."""
        return cls(layout, chunk, shape.final_softcap, layout.splits_vocabulary(head.shape[0]))

    def chunk_size(self, count: int) -> int:
        """Positions of a chunk, for a device that has ``count`` positions."""
        chunk = min(self.chunk or count, count)
        if self.chunk and self.vocabulary_parallel:
            # The chunks of all devices are gathered: 16 devices have chunks of 512 if ``self.chunk`` is 1024.
            largest = self.chunk * MAX_DEVICES_WITH_WHOLE_CHUNKS // self.layout.shape.fsdp
            return max(1, min(chunk, largest))
        return chunk

    def first_token(self, head: jax.Array) -> jax.Array | int:
        """The token of the first row in this device's part of the head."""
        return jax.lax.axis_index((FSDP, TP)) * head.shape[0] if self.vocabulary_parallel else 0

    def gather(self, xs: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """The joined chunks of all devices that share the vocabulary; otherwise this device's own chunk."""
        if not self.vocabulary_parallel:
            return xs
        return tuple(jax.lax.all_gather(x, FSDP, axis=0, tiled=True) for x in xs)


def loss_sum(hidden: jax.Array, head: jax.Array, targets: jax.Array, weights: jax.Array, shape: ModelShape,
             layout: Layout, chunk: int) -> jax.Array:
    """Sum of ``weights * loss``, a float32 scalar.

    ``hidden`` ``[B, S, D]``, ``head`` ``[V, D]``, ``targets`` and ``weights`` ``[B, S]`` or ``[B, S, K]``; ``chunk``:
    positions of one device whose logits exist at one time; 0: all.
    """
    partition = LossPartition.from_head(head, shape, layout, chunk)
    # Cast once, outside of the chunks.
    return split_loss_sum(partition, hidden, head.astype(hidden.dtype), targets, weights)


def with_temperature(hidden: jax.Array, shape: ModelShape, temperature: float) -> tuple[jax.Array, ModelShape]:
    """Hidden states and a shape that give the same logits divided by ``temperature``."""
    if temperature == 1:
        return hidden, shape
    # c tanh(x / c) / T is c' tanh(x' / c') with c' = c / T and x' = x / T, so the soft cap is divided, too.
    return hidden / temperature, replace(shape, final_softcap=shape.final_softcap / temperature)


def target_log_probs(hidden: jax.Array, head: jax.Array, targets: jax.Array, shape: ModelShape, layout: Layout,
                     chunk: int) -> jax.Array:
    """Float32 log probability of every target, in the targets' shape, without derivatives; see `loss_sum`."""
    partition = LossPartition.from_head(head, shape, layout, chunk)

    def log_probs(h: jax.Array, t: jax.Array, head: jax.Array, first: jax.Array | int) -> jax.Array:
        return logits_of_chunk(partition, h, t, head, first).log_probs

    return map_chunks(partition, log_probs, (hidden, targets), head.astype(hidden.dtype))


def map_chunks(partition: LossPartition, function: Callable[..., Any], rows: tuple[jax.Array, ...],
               head: jax.Array) -> Any:
    """Apply ``function(*chunks, head, first)`` to chunks of positions, and join the results ``[C, ...]``.

    ``rows`` and the joined results: ``[B, S, ...]`` each. The function gets a chunk ``[C, ...]`` of each of ``rows``,
    and a device's part of ``head``, which begins at token ``first``.
    """
    def local(rows: tuple[jax.Array, ...], head: jax.Array) -> Any:
        batch, length = rows[0].shape[:2]
        first, chunk = partition.first_token(head), partition.chunk_size(batch * length)

        def run_chunk(carry: None, xs: tuple[jax.Array, ...]) -> tuple[None, Any]:
            results = function(*partition.gather(xs), head, first)
            if not partition.vocabulary_parallel:
                return carry, results
            own_start = jax.lax.axis_index(FSDP) * chunk  # of this device's positions in the gathered chunk
            return carry, jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, own_start, chunk), results)

        def join(x: jax.Array) -> jax.Array:  # [n, C, ...] -> [B, S, ...], without the padding of the last chunk
            return x.reshape(-1, *x.shape[2:])[:batch * length].reshape(batch, length, *x.shape[2:])

        _, by_chunk = jax.lax.scan(run_chunk, None, tuple(chunks(x, chunk) for x in rows))
        return jax.tree.map(join, by_chunk)

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
    # A frozen head has no gradient.
    loss, *gradients = _sharded(partition, "both" if head.perturbed else "hidden")(
        hidden.value, head.value, targets.value, weights.value)
    return loss, gradients


def _backward(partition: LossPartition, gradients: list[jax.Array], ct: jax.Array) -> tuple[Any, ...]:
    # `_unpartitioned` rounds the factor, `_local` the product: recorded runs repeat bit for bit.
    scaled = [x * ct.astype(x.dtype) if partition.is_unpartitioned else (x * ct).astype(x.dtype) for x in gradients]
    without_gradient = 4 - len(scaled)  # targets, weights, and a frozen head
    return *scaled, *[None] * without_gradient


split_loss_sum.defvjp(_forward, _backward, symbolic_zeros=True)


def _sharded(partition: LossPartition, gradient: Gradient) -> Any:
    """The loss and its gradients as a function of whole arrays."""
    if partition.is_unpartitioned:
        return partial(_unpartitioned, partition, gradient)
    rows, head = partition.specs
    results = {"none": P(), "hidden": (P(), rows), "both": (P(), rows, head)}[gradient]
    return partition.layout.shard_map(partial(_local, partition, gradient), (rows, head, rows, rows), results)


def _unpartitioned(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
                   weights: jax.Array) -> Any:
    """The loss of one device, with all logits in memory at once."""
    h = hidden.reshape(-1, hidden.shape[-1])
    t, w = (x.reshape(-1, *x.shape[2:]) for x in (targets, weights))
    loss, d_logits = _add_loss(partition, gradient, jnp.zeros(()), h, head, t, w, 0)
    if d_logits is None:
        return loss
    # In float32: a bfloat16 sum over 256,000 tokens would lose most of its terms.
    d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
    d_hidden = d_h.astype(hidden.dtype).reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    # The compiler for CPUs transposes the left operand, so the narrow one comes first.
    d_head = jnp.einsum("cd,cv->dv", h, d_logits, preferred_element_type=jnp.float32)
    return loss, d_hidden, d_head.T.astype(head.dtype)


def chunks(x: jax.Array, chunk: int) -> jax.Array:
    """``[B, S, ...]`` as ``[n, C, ...]``, padded with zeros."""
    flat = x.reshape(-1, *x.shape[2:])
    flat = jnp.pad(flat, ((0, -flat.shape[0] % chunk), *[(0, 0)] * (flat.ndim - 1)))
    return flat.reshape(-1, chunk, *flat.shape[1:])


def _local(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
           weights: jax.Array) -> Any:
    """The loss by chunks, as each device computes it inside `shard_map`."""
    count = hidden.shape[0] * hidden.shape[1]
    chunk, first = partition.chunk_size(count), partition.first_token(head)
    vocabulary_parallel = partition.vocabulary_parallel

    def add_chunk(carry: tuple[jax.Array, jax.Array], xs: tuple[jax.Array, ...]) -> tuple[Any, jax.Array]:
        loss, d_head = carry
        h, t, w = partition.gather(xs)
        loss, d_logits = _add_loss(partition, gradient, loss, h, head, t, w, first)
        if d_logits is None:
            return (loss, d_head), jnp.zeros(())
        if gradient == "both":  # a float32 sum over chunks
            d_head = d_head + jnp.einsum("cv,cd->vd", d_logits, h, preferred_element_type=jnp.float32)
        d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
        if vocabulary_parallel:
            # Each device has the terms of its own part of the vocabulary. Each row's sum returns to the row's device.
            d_h = jax.lax.psum_scatter(jax.lax.psum(d_h, TP), FSDP, scatter_dimension=0, tiled=True)
        return (loss, d_head), d_h.astype(h.dtype)

    # Without a gradient of the head, a scalar is carried in its place.
    start = (jnp.zeros(()), jnp.zeros(head.shape if gradient == "both" else (), jnp.float32))
    xs = tuple(chunks(x, chunk) for x in (hidden, targets, weights))
    (loss, d_head), d_hidden = jax.lax.scan(add_chunk, start, xs)
    # Devices that share the vocabulary have gathered the rows of all devices along `fsdp`.
    if not vocabulary_parallel:
        loss = jax.lax.psum(loss, FSDP)
    loss = partition.layout.sum_over_copies(loss)
    if gradient == "none":
        return loss
    d_hidden = d_hidden.reshape(-1, hidden.shape[-1])[:count].reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    if not vocabulary_parallel:
        d_head = jax.lax.psum(d_head, FSDP)
    return loss, d_hidden, partition.layout.sum_over_copies(d_head).astype(head.dtype)


def _add_loss(partition: LossPartition, gradient: Gradient, loss: jax.Array, h: jax.Array, head: jax.Array,
              t: jax.Array, w: jax.Array, first: jax.Array | int) -> tuple[jax.Array, jax.Array | None]:
    """``loss`` plus the loss of these positions, and the gradient ``[C, V]`` of their logits; None if not needed.

    ``h`` ``[C, D]``: hidden states; ``head`` ``[V, D]``: this device's part, from token ``first`` on; ``t`` and ``w``:
    targets and weights, ``[C]`` or ``[C, K]``.
    """
    chunk = logits_of_chunk(partition, h, t, head, first)
    negative_log_probs = -chunk.log_probs if t.ndim > 1 else chunk.log_z - chunk.target_logit
    loss = loss + jnp.sum(negative_log_probs * w)
    if gradient == "none":
        return loss, None
    # The derivative of the log of the sum of exponentials is the softmax.
    softmax = jnp.exp(chunk.logits - chunk.log_z[:, None])
    if isinstance(chunk.targets, TargetIndices):
        # A scatter of K numbers per position: comparing every logit with each target would read all logits K times.
        at_targets = jnp.arange(len(softmax))[:, None], chunk.targets.indices
        d_logits = (softmax * w.sum(-1, keepdims=True)).at[at_targets].add(-(w * chunk.targets.on_this_shard))
        return loss, (d_logits * chunk.slope).astype(h.dtype)
    return loss, ((softmax - chunk.targets) * w[:, None] * chunk.slope).astype(h.dtype)


class TargetIndices(NamedTuple):
    """Indices of each position's targets in this device's part of the vocabulary."""

    indices: jax.Array
    """``[C, K]``; any valid index for a target of another device."""
    on_this_shard: jax.Array
    """``[C, K]`` bool: whether the target is in this device's part."""


class _ChunkLogits(NamedTuple):
    """Logits of a chunk of positions, their normalizer and the logits of the targets."""

    logits: jax.Array
    """``[C, V]`` float32, this device's part of the vocabulary."""
    slope: jax.Array | float
    """``[C, V]`` derivative of the soft cap."""
    targets: jax.Array | TargetIndices
    """``[C, V]`` mask that is true at the target, or the indices of several targets."""
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
    targets, target_logit = _find_targets(logits, t, first)
    # The largest logit is subtracted, so that no exponential overflows.
    top = jnp.max(logits, -1)
    if partition.vocabulary_parallel:
        top = jax.lax.pmax(top, (FSDP, TP))
    total = jnp.sum(jnp.exp(logits - top[:, None]), -1)
    if partition.vocabulary_parallel:
        # All devices but one have 0 for a target's logit.
        total, target_logit = jax.lax.psum((total, target_logit), (FSDP, TP))
    return _ChunkLogits(logits, slope, targets, jnp.log(total) + top, target_logit)


def _find_targets(logits: jax.Array, t: jax.Array, first: jax.Array | int
                  ) -> tuple[jax.Array | TargetIndices, jax.Array]:
    """The targets as in `_ChunkLogits`, and their logits; 0 for a target in another device's part."""
    if t.ndim == 1:
        # A sum instead of a gather: it fuses, and its gradient needs no scatter.
        is_target = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) + first == t[:, None]
        return is_target, jnp.sum(jnp.where(is_target, logits, 0.0), -1)
    size = logits.shape[1]
    targets = TargetIndices(jnp.clip(t - first, 0, size - 1), (t >= first) & (t < first + size))
    return targets, jnp.where(targets.on_this_shard, jnp.take_along_axis(logits, targets.indices, 1), 0.0)
