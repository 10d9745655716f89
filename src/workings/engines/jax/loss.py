"""Masked next-token loss as a sum, so that micro batches, devices and batches add up exactly.

Two ways with the same result; both compute gradients while the logits are there. `_unpartitioned` holds all of them.
`_local` never has: it walks over chunks of positions, and on several devices each holds its own part of the vocabulary,
so that neither the logits nor the embedding is ever whole anywhere, and the embedding's gradient never leaves the
device that owns it.

A position may have several targets, each with a weight of its own: its loss is then the sum over them.

Shape suffixes: B rows, S positions, D width, V vocabulary, C positions of a chunk, K targets of a position.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from workings.engines.jax.several_targets import Places
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.models.shape import ModelShape

GATHERED_FROM = 8
"""Devices whose whole chunks are gathered in one turn; more of them give less each, so that what is gathered stays."""
Gradient = Literal["none", "hidden", "both"]
"""What is computed beside the loss: nothing, the gradient of the hidden states, or that of the head as well."""


@dataclass(frozen=True)
class LossPartition:
    """How the loss is cut: positions per chunk and device, and whether each device has its part of the vocabulary."""

    layout: Layout
    chunk: int
    softcap: float
    vocabulary_parallel: bool

    @property
    def is_unpartitioned(self) -> bool:
        """Whether it is not cut at all."""
        return self.layout.size == 1 and self.chunk == 0

    @classmethod
    def of(cls, head: jax.Array, shape: ModelShape, layout: Layout, chunk: int) -> "LossPartition":
        """How the loss of a head ``[V, D]`` is cut."""
        return cls(layout, chunk, shape.final_softcap, layout.splits_vocabulary(head.shape[0]))

    def chunk_of(self, count: int) -> int:
        """Positions per chunk of a device that has ``count`` of them."""
        chunk = min(self.chunk or count, count)
        if self.chunk and self.vocabulary_parallel:
            return max(1, min(chunk, self.chunk * GATHERED_FROM // self.layout.fsdp))
        return chunk

    def first_token(self, head: jax.Array) -> jax.Array | int:
        """The token of the first row of this device's part of the head."""
        return jax.lax.axis_index((FSDP, TP)) * head.shape[0] if self.vocabulary_parallel else 0

    def gathered(self, xs: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """A chunk of all devices that share the vocabulary; where none share it, this device's own."""
        if not self.vocabulary_parallel:
            return xs
        return tuple(jax.lax.all_gather(x, FSDP, axis=0, tiled=True) for x in xs)


def loss_sum(hidden: jax.Array, head: jax.Array, targets: jax.Array, weights: jax.Array, shape: ModelShape,
             layout: Layout, chunk: int) -> jax.Array:
    """Sum of ``weights * loss``. One device and no chunk: all logits at once; else by parts.

    Args:
        hidden: ``[B, S, D]``.
        head: ``[V, D]``.
        targets, weights: ``[B, S]``, or ``[B, S, K]``.
        shape: of the model.
        layout: the mesh.
        chunk: positions of one device whose logits exist at one time; 0: all.
    """
    partition = LossPartition.of(head, shape, layout, chunk)
    return split_loss_sum(partition, hidden, head.astype(hidden.dtype), targets, weights)


def tempered(hidden: jax.Array, shape: ModelShape, temperature: float) -> tuple[jax.Array, ModelShape]:
    """Hidden states and a shape whose logits are those of the given ones, divided by ``temperature``."""
    if temperature == 1:
        return hidden, shape
    # c tanh(x / c) / T is c' tanh(x' / c') with c' = c / T and x' = x / T: a soft cap is divided as the logits are.
    return hidden / temperature, replace(shape, final_softcap=shape.final_softcap / temperature)


def target_log_probs(hidden: jax.Array, head: jax.Array, targets: jax.Array, shape: ModelShape, layout: Layout,
                     chunk: int) -> jax.Array:
    """Float32 log probability of every target, in the targets' shape; no derivative. Arguments as in `loss_sum`."""
    partition, head = LossPartition.of(head, shape, layout, chunk), head.astype(hidden.dtype)
    local = partial(_local_log_probs, partition)
    if layout.size == 1:
        return local(hidden, head, targets)
    rows, own = P(FSDP), P((FSDP, TP)) if partition.vocabulary_parallel else P()
    return jax.shard_map(local, mesh=layout.mesh, in_specs=(rows, own, rows), out_specs=rows,
                         check_vma=False)(hidden, head, targets)


def _local_log_probs(partition: LossPartition, hidden: jax.Array, head: jax.Array, targets: jax.Array) -> jax.Array:
    """Of one device's rows, chunk by chunk: the logits of a chunk exist at one time."""
    count, first = targets.shape[0] * targets.shape[1], partition.first_token(head)
    chunk = partition.chunk_of(count)

    def one(carry: None, xs: tuple[jax.Array, ...]) -> tuple[None, jax.Array]:
        h, t = partition.gathered(xs)
        log_probs = logits_of_chunk(partition, h, t, head, first).log_probs
        if partition.vocabulary_parallel:  # of the devices' chunks, which lie one behind the other, this one's own
            log_probs = jax.lax.dynamic_slice_in_dim(log_probs, jax.lax.axis_index(FSDP) * chunk, chunk)
        return carry, log_probs

    _, each_log_prob = jax.lax.scan(one, None, (chunks(hidden, chunk), chunks(targets, chunk)))
    return each_log_prob.reshape(-1, *targets.shape[2:])[:count].reshape(targets.shape)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def split_loss_sum(partition: LossPartition, hidden: jax.Array, head: jax.Array, targets: jax.Array,
                   weights: jax.Array) -> jax.Array:
    """Sum of ``weights * loss``, cut as ``partition`` says.

    Its gradient is computed in the same pass: logits are made once, not once in forward and again in backward.
    """
    return _sharded(partition, "none")(hidden, head, targets, weights)


def _forward(partition: LossPartition, hidden: Any, head: Any, targets: Any, weights: Any) -> tuple[jax.Array, Any]:
    # A frozen head (adapters only) has no gradient, and nothing of its size is made.
    loss, *kept = _sharded(partition, "both" if head.perturbed else "hidden")(
        hidden.value, head.value, targets.value, weights.value)
    return loss, kept


def _backward(partition: LossPartition, kept: list[jax.Array], ct: jax.Array) -> tuple[Any, ...]:
    # The whole loss rounds the factor first, the one in parts the product: in bfloat16 the two differ.
    gradients = [x * ct.astype(x.dtype) if partition.is_unpartitioned else (x * ct).astype(x.dtype) for x in kept]
    return *gradients, *[None] * (4 - len(gradients))


split_loss_sum.defvjp(_forward, _backward, symbolic_zeros=True)


def _sharded(partition: LossPartition, gradient: Gradient) -> Any:
    """The loss on every device's own rows and its own part of the vocabulary; on one without chunks, of everything."""
    if partition.is_unpartitioned:
        return partial(_unpartitioned, partition, gradient)
    rows, own = P(FSDP), P((FSDP, TP)) if partition.vocabulary_parallel else P()
    out = {"none": P(), "hidden": (P(), rows), "both": (P(), rows, own)}[gradient]
    # Nothing is differentiated through the collectives: both gradients are outputs, written out below.
    return jax.shard_map(partial(_local, partition, gradient), mesh=partition.layout.mesh,
                         in_specs=(rows, own, rows, rows), out_specs=out, check_vma=False)


def _unpartitioned(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
                   weights: jax.Array) -> Any:
    """One device's loss with all logits in memory at once."""
    h = hidden.reshape(-1, hidden.shape[-1])
    t, w = (x.reshape(-1, *x.shape[2:]) for x in (targets, weights))
    loss, d_logits = _add_loss(partition, gradient, jnp.zeros(()), h, head, t, w, 0)
    if d_logits is None:
        return loss
    # Gradients are those of the loss times 1; `_backward` multiplies with what the loss is really worth.
    d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
    d_hidden = d_h.astype(hidden.dtype).reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    # h comes first: the compiler for CPUs transposes the left operand, and h is the narrow one.
    d_head = jnp.einsum("cd,cv->dv", h, d_logits, preferred_element_type=jnp.float32)
    return loss, d_hidden, d_head.T.astype(head.dtype)


def chunks(x: jax.Array, chunk: int) -> jax.Array:
    """``[B, S, ...]`` as ``[n, C, ...]``, padded with zeros (whose weight is zero, too)."""
    flat = x.reshape(-1, *x.shape[2:])
    flat = jnp.pad(flat, ((0, -flat.shape[0] % chunk), *[(0, 0)] * (flat.ndim - 1)))
    return flat.reshape(-1, chunk, *flat.shape[1:])


def _local(partition: LossPartition, gradient: Gradient, hidden: jax.Array, head: jax.Array, targets: jax.Array,
           weights: jax.Array) -> Any:
    """One device's share: walks over its chunks; each chunk is gathered from all devices that share the vocabulary."""
    count = hidden.shape[0] * hidden.shape[1]
    chunk, first = partition.chunk_of(count), partition.first_token(head)
    vocabulary_parallel = partition.vocabulary_parallel

    def one(carry: tuple[jax.Array, jax.Array], xs: tuple[jax.Array, ...]) -> tuple[Any, jax.Array]:
        h, t, w = partition.gathered(xs)
        loss, d_logits = _add_loss(partition, gradient, carry[0], h, head, t, w, first)
        if d_logits is None:
            return (loss, carry[1]), jnp.zeros(())
        # A float32 sum over chunks, of the size of this device's part of the head, rounded once at the end.
        d_head = carry[1]
        if gradient == "both":
            d_head = d_head + jnp.einsum("cv,cd->vd", d_logits, h, preferred_element_type=jnp.float32)
        d_h = jnp.einsum("cv,vd->cd", d_logits, head, preferred_element_type=jnp.float32)
        if vocabulary_parallel:
            # A device knows what its own tokens give; summed over all devices, each gets back the rows that it sent.
            d_h = jax.lax.psum_scatter(jax.lax.psum(d_h, TP), FSDP, scatter_dimension=0, tiled=True)
        return (loss, d_head), d_h.astype(h.dtype)

    # Where no gradient of the head is asked for, a scalar is carried in the place of one.
    start = (jnp.zeros(()), jnp.zeros(head.shape if gradient == "both" else (), jnp.float32))
    (loss, d_head), d_hidden = jax.lax.scan(one, start, tuple(chunks(x, chunk) for x in (hidden, targets, weights)))
    # Devices that share the vocabulary have each counted the rows of all; the others only their own.
    if not vocabulary_parallel:
        loss = jax.lax.psum(loss, FSDP)
    if gradient == "none":
        return loss
    # Without the positions that filled up the last chunk.
    d_hidden = d_hidden.reshape(-1, hidden.shape[-1])[:count].reshape(hidden.shape)
    if gradient == "hidden":
        return loss, d_hidden
    if not vocabulary_parallel:
        d_head = jax.lax.psum(d_head, FSDP)
    return loss, d_hidden, d_head.astype(head.dtype)


def _add_loss(partition: LossPartition, gradient: Gradient, loss: jax.Array, h: jax.Array, head: jax.Array,
              t: jax.Array, w: jax.Array, first: jax.Array | int) -> tuple[jax.Array, jax.Array | None]:
    """The loss so far with that of these positions, and the gradient of their logits where one is wanted.

    Args:
        partition: see `LossPartition`.
        gradient: see `Gradient`.
        loss: so far.
        h: ``[C, D]``.
        head: ``[V, D]``, this device's part.
        t, w: ``[C]`` (or ``[C, K]``), targets and weights.
        first: the token of the head's first row.

    Returns:
        The loss, and ``[C, V]`` or None.
    """
    made = logits_of_chunk(partition, h, t, head, first)
    loss = loss + jnp.sum(-made.log_probs * w) if t.ndim > 1 else loss + jnp.sum((made.log_z - made.of_target) * w)
    if gradient == "none":
        return loss, None
    # The derivative of the log of the sum is the softmax; it is rounded to h's dtype for the two products that follow.
    softmax = jnp.exp(made.logits - made.log_z[:, None])
    if isinstance(made.hit, Places):
        return loss, (made.hit.without(softmax * w.sum(-1, keepdims=True), w) * made.slope).astype(h.dtype)
    return loss, ((softmax - made.hit) * w[:, None] * made.slope).astype(h.dtype)


@dataclass(frozen=True)
class _Logits:
    """Logits of a chunk of positions and what follows from them."""

    logits: jax.Array
    """``[C, V]`` float32, this device's part of the vocabulary."""
    slope: jax.Array | float
    """``[C, V]`` derivative of the soft cap."""
    hit: jax.Array | Places
    """``[C, V]`` true at the target; of several targets their places."""
    log_z: jax.Array
    """``[C]`` log of the sum of exponentials over the whole vocabulary."""
    of_target: jax.Array
    """``[C]`` (or ``[C, K]``) logit of the target."""

    @property
    def log_probs(self) -> jax.Array:
        """``[C]`` (or ``[C, K]``) log probability of the target."""
        return self.of_target - (self.log_z[:, None] if self.of_target.ndim > 1 else self.log_z)


def logits_of_chunk(partition: LossPartition, h: jax.Array, t: jax.Array, head: jax.Array, first: jax.Array | int
                    ) -> _Logits:
    """As `_add_loss` takes them: ``h`` is ``[C, D]``, ``t`` ``[C]`` or ``[C, K]``, ``head`` ``[V, D]``."""
    logits, slope = _capped(jnp.einsum("cd,vd->cv", h, head, preferred_element_type=jnp.float32), partition.softcap)
    # Compare and sum instead of gather: it fuses, and its gradient is no scatter (a scalar loop on a CPU).
    hit = Places.of(t, first, head.shape[0]) if t.ndim > 1 else \
        jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) + first == t[:, None]
    log_z, of_target = _normalizer(logits, hit, partition.vocabulary_parallel)
    return _Logits(logits, slope, hit, log_z, of_target)


def _capped(raw: jax.Array, softcap: float) -> tuple[jax.Array, jax.Array | float]:
    """Logits after the soft cap, and the derivative of the cap."""
    if not softcap:
        return raw, 1.0
    bent = jnp.tanh(raw / softcap)
    return softcap * bent, 1.0 - jnp.square(bent)


def _normalizer(logits: jax.Array, hit: jax.Array | Places, vocabulary_parallel: bool) -> tuple[jax.Array, jax.Array]:
    """``[C]`` log of the sum of exponentials and logit of the target (of each), over the whole vocabulary."""
    # With the largest logit of the whole vocabulary taken off, no exponential overflows and one of them is 1.
    top = jnp.max(logits, -1)
    if vocabulary_parallel:
        top = jax.lax.pmax(top, (FSDP, TP))
    total = jnp.sum(jnp.exp(logits - top[:, None]), -1)
    picked = hit.picked(logits) if isinstance(hit, Places) else jnp.sum(jnp.where(hit, logits, 0.0), -1)
    if vocabulary_parallel:
        # Only the device that owns the target adds something to `picked`; the two sums travel together, `[C]` each.
        total, picked = jax.lax.psum((total, picked), (FSDP, TP))
    return jnp.log(total) + top, picked
