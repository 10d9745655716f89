"""Generation token by token, for a batch of rows whose prompts have been read into a cache.

A GPU records the operations of one token as a CUDA graph and replays them, because launching them one by one takes
many times as long as computing them. Therefore everything that changes from token to token is in tensors that keep
their addresses: cache, slot, position and number of the token.

Shape suffixes: B rows, T cache slots, N all rows of the batch, including those that have ended.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.model import final_logits, hidden_states
from workings.engines.torch.spec import TorchSpec

PickToken = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]
"""``(logits [B, V], number of the new token [1], row numbers [B]) -> [B]`` int64 tokens; a sampler also returns their
log probabilities, float64."""
FIRST_NEW_SLOTS = {"cpu": 64, "cuda": 512}
"""Slots for new tokens that a cache has at first, by device. Their number doubles when all are full. A GPU records its
graph again then; a CPU spends more on attention over empty slots than on adding slots."""
SHRINK = {"cpu": 2, "cuda": 4}
"""Rows that have ended are removed when at most one row in this many goes on. That copies the cache, and a GPU records
its graph again."""


class FixedCache(DynamicCache):  # type: ignore[misc]  # transformers is not typed
    """A cache with ``padded`` slots for prompts, then ``new_slots`` for new tokens, in each of ``rows`` rows.

    Some prompts at a time are read into their rows, ``copies`` neighbouring rows each. Then each new token goes into
    one slot of all rows.
    """

    def __init__(self, spec: TorchSpec, rows: int, padded: int, new_slots: int, copies: int) -> None:
        super().__init__()
        shape, self.copies, self.slots = spec.shape, copies, padded + new_slots
        self.first_prompt: int | None = 0
        """Number of the first prompt that is read now; None when all have been read."""
        self.slot = torch.full((1,), padded, dtype=torch.int64, device=spec.device)
        """``[1]`` slot of the next token."""
        self.layers = []
        # All are allocated before a prompt is read. Later, among activations, they would fragment a GPU's memory.
        for layer in range(shape.layers):
            if not shape.shares_keys(layer):
                size = (rows, shape.kv_heads_of(layer), self.slots, shape.head_dim_of(layer))
                keys, values = (torch.zeros(size, dtype=spec.compute_dtype, device=spec.device) for _ in range(2))
                self.layers.append(FixedLayer(self, keys, values))

    def extend(self, slots: int) -> None:
        """Give every layer this many slots; at most one tensor exists twice."""
        self.slots = slots
        for layer in self.layers:
            layer.keys = extended(layer.keys, slots)
            layer.values = extended(layer.values, slots)
            if self.slot.device.type == "cuda":
                torch.cuda.empty_cache()  # nothing that comes fits into the memory of the former tensors


class FixedLayer:
    """A layer of a `FixedCache`: keys and values ``[B, heads, T, H]``."""

    is_sliding, is_initialized = False, True

    def __init__(self, cache: FixedCache, keys: Tensor, values: Tensor) -> None:
        self.cache, self.keys, self.values = cache, keys, values

    def update(self, key_states: Tensor, value_states: Tensor, *others: Any, **more: Any) -> tuple[Tensor, Tensor]:
        """Store new keys and values; returns those that attention reads: a prompt's own, or later all slots."""
        first = self.cache.first_prompt
        if first is None:
            # In place and by a tensor, so that a recorded graph works for every slot.
            self.keys.index_copy_(2, self.cache.slot, key_states)
            self.values.index_copy_(2, self.cache.slot, value_states)
            return self.keys, self.values
        for held, new in ((self.keys, key_states), (self.values, value_states)):
            by_prompt = held.unflatten(0, (-1, self.cache.copies))
            by_prompt[first:first + len(new), :, :, :new.shape[2]] = new[:, None]
        return key_states, value_states

    def reorder_cache(self, index: Tensor) -> None:
        """Keep these rows."""
        self.keys, self.values = self.keys.index_select(0, index), self.values.index_select(0, index)

    def get_seq_length(self) -> int:
        """Slots, filled or not; transformers asks for them although positions are given."""
        return self.cache.slots


def extended(held: Tensor, slots: int) -> Tensor:
    """A copy whose third axis has ``slots`` slots; empty ones are zero, because a weight of zero times NaN is NaN."""
    wider = held.new_zeros((*held.shape[:2], slots, *held.shape[3:]))
    wider[:, :, :held.shape[2]] = held
    return wider


class Decoder:
    """Generates up to ``limit`` tokens for rows whose prompts have been read into ``cache``, padded on the right.

    ``model`` is in evaluation mode, ``lengths`` ``[B]`` are those of the prompts, and ``padded`` is the longest.
    """

    def __init__(self, spec: TorchSpec, model: PreTrainedModel, cache: DynamicCache, lengths: Tensor, *, padded: int,
                 limit: int, stop_ids: Sequence[int], pick: PickToken) -> None:
        device = spec.device
        self.spec, self.model, self.cache, self.limit, self.pick = spec, model, cache, limit, pick
        self.padded = padded
        self.stops = torch.tensor([*stop_ids], dtype=torch.int64, device=device)
        self.rows = torch.arange(len(lengths), device=device)
        """``[B]`` numbers of the rows that are still computed."""
        self.finished = torch.zeros_like(self.rows, dtype=torch.bool)
        """``[B]`` which of them have ended."""
        self.token, self.position = torch.zeros_like(self.rows), lengths.clone()
        """``[B]`` last token of each row, and its position."""
        self.count = torch.zeros(1, dtype=torch.int64, device=device)
        """``[1]`` number of the next token."""
        self.slot = cache.slot if isinstance(cache, FixedCache) else torch.full_like(self.count, padded)
        """``[1]`` cache slot that it is read into."""
        slots = cache.slots if isinstance(cache, FixedCache) else padded
        index = torch.arange(slots, device=device).expand(len(lengths), -1)
        self.slot_positions, self.seen = index.clone(), index < lengths[:, None]
        """``[B, T]`` position of the token in each cache slot, and whether it may be attended to."""
        self.picked: tuple[Tensor, ...] = ()
        """``[limit, N]`` tokens, and log probabilities if ``pick`` returns them."""
        self.graph: torch.cuda.CUDAGraph | None = None

    def choose(self, hidden: Tensor) -> None:
        """Choose each row's next token from the hidden states ``[B, D]`` of its last one."""
        logits = final_logits(self.model, hidden, self.spec.shape.final_softcap)
        picked = self.pick(logits, self.count, self.rows)
        if not self.picked:
            self.picked = tuple(x.new_zeros((self.limit, len(self.rows))) for x in picked)
        for values, x in zip(self.picked, picked, strict=True):
            values.index_put_((self.count, self.rows), x)
        self.token.copy_(picked[0])
        self.finished |= (self.token[:, None] == self.stops).any(1)
        self.count += 1

    def advance(self) -> None:
        """Read each row's last token, and choose the next one."""
        self.slot_positions.index_copy_(1, self.slot, self.position[:, None])
        self.seen.index_fill_(1, self.slot, True)
        distance = self.position[:, None] - self.slot_positions
        visible = AttentionMask(distance=distance[:, None], seen=self.seen)
        hidden = hidden_states(self.model, self.token[:, None], self.position[:, None], visible, self.cache)
        self.position += 1
        self.slot += 1
        self.choose(hidden[:, -1])

    def extend(self, slots: int) -> None:
        """Give the cache this many slots."""
        self.graph = None  # it knows the old tensors' addresses
        self.slot_positions, self.seen = (extended(x[:, None], slots)[:, 0] for x in (self.slot_positions, self.seen))
        if isinstance(self.cache, FixedCache):
            self.cache.extend(slots)

    def keep_rows(self, index: Tensor) -> None:
        """Remove the other rows."""
        self.graph = None
        self.rows, self.finished, self.token, self.position, self.slot_positions, self.seen = (
            x[index] for x in (self.rows, self.finished, self.token, self.position, self.slot_positions, self.seen))
        self.cache.reorder_cache(index)

    def run(self, hidden: Tensor, tell: Callable[[int], None] | None = None) -> list[list[list[Any]]]:
        """Equally many tokens of every row, and their log probabilities if ``pick`` returns them.

        ``hidden`` ``[N, D]`` are states of the prompts' last tokens. ``tell`` is called with each token of a single
        row. Every process returns the rows of all processes, in their order. A process whose rows have ended goes on
        until all have, because the processes gather the weights together.
        """
        self.choose(hidden)
        for count in range(1, self.limit + 1):
            unfinished = len(self.rows) - int(self.finished.sum())
            if tell is not None and unfinished:
                tell(int(self.token[0]))
            if count == self.limit or self.spec.mesh.total(unfinished, self.spec.device) == 0:
                break
            kept = max(1, unfinished)
            if kept <= len(self.rows) // SHRINK[self.spec.device.type] and self.spec.shape.verified:
                self.keep_rows(self.finished.int().argsort(stable=True)[:kept])
            self.grow(count)
            self.replay()
        return [self.spec.mesh.joined(values[:count].T).tolist() for values in self.picked]

    def grow(self, count: int) -> None:
        """Extend the cache if it has no slot for the last of ``count`` new tokens."""
        if not isinstance(self.cache, FixedCache):
            self.extend(self.padded + count)
        elif count > (new_slots := self.cache.slots - self.padded):
            self.extend(self.padded + min(2 * new_slots, self.limit - 1))

    def replay(self) -> None:
        """One more token of each row, on a GPU by a recorded graph of `advance`."""
        if self.graph is not None:
            self.graph.replay()
            return
        # A first run loads and chooses kernels, which a recording must not contain.
        self.advance()
        if can_replay(self.spec):
            self.graph = torch.cuda.CUDAGraph()
            # Recording computes nothing. Other threads, such as one that reads the GPU's load, may go on.
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.advance()


def can_replay(spec: TorchSpec) -> bool:
    """Whether a GPU can replay a token. Tables on the host, experts and other processes need the host within it."""
    return (spec.device.type == "cuda" and spec.shape.verified and not spec.shape.has_state and not spec.shape.experts
            and not spec.table_on_host and spec.mesh.processes == 1)
