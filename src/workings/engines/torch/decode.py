"""New tokens of a batch of rows, one after the other, by a program that is the same for each.

All that differs from token to token is in tensors that keep their addresses: the cache has room for tokens to come,
and the slot, the position and the number of a token are tensors, too. So a card records the operations of one token
once, as a CUDA graph, and replays them: launched one by one by the host they take many times as long as they compute.

Shape suffixes: B rows, T cache slots, N all rows of the batch, also those that have ended.
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
"""``(logits [B, V], number of the new token [1], row numbers [B]) -> [B]`` int64 tokens; for sampled tokens also their
log probabilities, float64."""
ROOM = {"cpu": 64, "cuda": 512}
"""New tokens that a cache first has room for, by device; the room doubles when it is full. On a CPU attention over
empty slots costs more than making room, and a card records its graph anew."""
SHRINK = {"cpu": 2, "cuda": 4}
"""Rows that have ended are removed once only one row in this many is left: that copies the cache of the others, and a
card records its graph anew."""


class FixedCache(DynamicCache):  # type: ignore[misc]  # transformers is not typed
    """transformers' cache, of all rows and with ``room`` for tokens to come behind ``padded`` slots of prompts.

    Prompts are read some at a time, straight into their rows, ``copies`` neighbours of each: caches of the parts,
    joined, would be there twice. Then each new token goes into one slot of all rows.
    """

    def __init__(self, spec: TorchSpec, rows: int, padded: int, room: int, copies: int) -> None:
        super().__init__()
        shape, self.copies, self.slots = spec.shape, copies, padded + room
        self.first_prompt: int | None = 0
        """Number of the first of the prompts that are read now; None once all were read."""
        self.slot = torch.full((1,), padded, dtype=torch.int64, device=spec.device)
        """``[1]`` slot of the next token."""
        # All at once, before a prompt is read: among activations, which come and go, they would leave gaps in a card's
        # memory that nothing fits into.
        self.layers = [FixedLayer(self, *(torch.zeros(
            (rows, shape.kv_heads_of(layer), self.slots, shape.head_dim_of(layer)), dtype=spec.compute_dtype,
            device=spec.device) for _ in range(2))) for layer in range(shape.layers) if not shape.shares_keys(layer)]

    def make_room(self, slots: int) -> None:
        """Let every layer have this many slots; at most one tensor exists twice."""
        self.slots = slots
        for layer in self.layers:
            layer.keys = with_room(layer.keys, slots)
            layer.values = with_room(layer.values, slots)
            if self.slot.device.type == "cuda":
                # The former tensors are too small for anything that comes, and are given back to the card.
                torch.cuda.empty_cache()


class FixedLayer:
    """A layer of a `FixedCache`: keys and values ``[B, heads, T, H]``."""

    is_sliding, is_initialized = False, True

    def __init__(self, cache: FixedCache, keys: Tensor, values: Tensor) -> None:
        self.cache, self.keys, self.values = cache, keys, values

    def update(self, key_states: Tensor, value_states: Tensor, *others: Any, **more: Any) -> tuple[Tensor, Tensor]:
        """Those of the prompts that are read now; later all slots, with those of the new token in place.

        A mask hides empty slots. They are zero, since a weight of zero times NaN is NaN.
        """
        del others, more
        cache, states = self.cache, (key_states, value_states)
        for held, new in zip((self.keys, self.values), states, strict=True):
            if cache.first_prompt is None:
                # In place and by a tensor: a recorded graph replays it for every slot.
                held.index_copy_(2, cache.slot, new)
            else:
                by_prompt = held.unflatten(0, (-1, cache.copies))
                by_prompt[cache.first_prompt:cache.first_prompt + len(new), :, :, :new.shape[2]] = new[:, None]
        return (self.keys, self.values) if cache.first_prompt is None else states

    def reorder_cache(self, index: Tensor) -> None:
        """Keep these rows."""
        self.keys, self.values = self.keys.index_select(0, index), self.values.index_select(0, index)

    def get_seq_length(self) -> int:
        """Slots, filled or not; transformers asks before it looks at positions, which are given."""
        return self.cache.slots


def with_room(held: Tensor, room: int) -> Tensor:
    """A copy whose third axis has ``room`` slots; empty ones are zero."""
    wider = held.new_zeros((*held.shape[:2], room, *held.shape[3:]))
    wider[:, :, :held.shape[2]] = held
    return wider


class Decoder:
    """Rows whose prompts were read into a cache, padded on the right, and the program of one more token of each.

    ``model`` is in evaluation mode; ``lengths`` ``[B]`` are those of the prompts, ``padded`` the longest of them, and
    ``limit`` the most new tokens of a row.
    """

    def __init__(self, spec: TorchSpec, model: PreTrainedModel, cache: DynamicCache, lengths: Tensor, *, padded: int,
                 limit: int, stop_ids: Sequence[int], pick: PickToken) -> None:
        device = spec.device
        self.spec, self.model, self.cache, self.limit, self.pick = spec, model, cache, limit, pick
        self.stops = torch.tensor([*stop_ids], dtype=torch.int64, device=device)
        # Numbers of the rows that are still computed, which of them have ended, their last token and its position.
        self.rows = torch.arange(len(lengths), device=device)
        self.finished = torch.zeros_like(self.rows, dtype=torch.bool)
        # Tensors that are changed in place: a graph reads the same memory each time.
        self.token, self.position = torch.zeros_like(self.rows), lengths.clone()
        # Number of the next token, and the cache slot that it is read into.
        self.count, self.padded = torch.zeros(1, dtype=torch.int64, device=device), padded
        self.slot, slots = (cache.slot, cache.slots) if isinstance(cache, FixedCache) else (
            torch.full_like(self.count, padded), padded)
        # Position of the token in each cache slot, and whether it may be attended to, which padding may not.
        index = torch.arange(slots, device=device).expand(len(lengths), -1)
        self.slot_positions, self.seen = index.clone(), index < lengths[:, None]
        self.picked: tuple[Tensor, ...] = ()
        self.graph: torch.cuda.CUDAGraph | None = None

    def choose(self, hidden: Tensor) -> None:
        """Choose each row's next token from ``[B, D]`` hidden states of its last one."""
        picked = self.pick(final_logits(self.model, hidden, self.spec.shape.final_softcap), self.count, self.rows)
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

    def make_room(self, slots: int) -> None:
        """Let the cache have this many slots."""
        # The tensors are new, and a graph knows the old ones by their addresses.
        self.graph = None
        self.slot_positions, self.seen = (with_room(x[:, None], slots)[:, 0] for x in (self.slot_positions, self.seen))
        if isinstance(self.cache, FixedCache):
            self.cache.make_room(slots)

    def keep_rows(self, index: Tensor) -> None:
        """Leave out the other rows."""
        self.graph = None
        self.rows, self.finished, self.token, self.position, self.slot_positions, self.seen = (
            x[index] for x in (self.rows, self.finished, self.token, self.position, self.slot_positions, self.seen))
        self.cache.reorder_cache(index)

    def run(self, hidden: Tensor, tell: Callable[[int], None] | None = None) -> list[list[list[Any]]]:
        """Equally many tokens of every row, and where ``pick`` returns them their log probabilities.

        ``hidden`` ``[N, D]`` are states of the prompts' last tokens. ``tell`` is called with each token of a single
        row. Of several processes each has the rows of all at the end, in the processes' order. Each makes as many
        passes as the others, because they gather the weights together: one whose rows have ended goes on until all
        have.
        """
        self.choose(hidden)
        del hidden
        kind = self.spec.device.type
        for count in range(1, self.limit + 1):
            unfinished = len(self.rows) - int(self.finished.sum())
            if tell is not None and unfinished:
                tell(int(self.token[0]))
            if count == self.limit or self.spec.mesh.total(unfinished, self.spec.device) == 0:
                break
            # Attention reads the whole cache for each token, so rows that have ended cost as much as others.
            kept = max(1, unfinished)  # one that has ended, where other processes go on
            if kept <= len(self.rows) // SHRINK[kind] and self.spec.shape.verified:
                self.keep_rows(self.finished.int().argsort(stable=True)[:kept])
            self.grow(count)
            self.replay()
        return [self.spec.mesh.joined(values[:count].T).tolist() for values in self.picked]

    def grow(self, count: int) -> None:
        """Make room for the token behind ``count`` new ones, if it is missing."""
        if not isinstance(self.cache, FixedCache):
            self.make_room(self.padded + count)
        elif self.padded + count > self.cache.slots:
            self.make_room(self.padded + min(2 * (count - 1), self.limit - 1))

    def replay(self) -> None:
        """One more token of each row: on a card by a graph of `advance`, once that was run on these tensors."""
        if self.graph is not None:
            self.graph.replay()
            return
        # The first time kernels are loaded and chosen, which a recording must not contain.
        self.advance()
        if can_replay(self.spec):
            self.graph = torch.cuda.CUDAGraph()
            # Nothing runs while it is recorded. Other threads, such as one that reads the card's load, may continue.
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.advance()


def can_replay(spec: TorchSpec) -> bool:
    """Whether one token is the same operations on the same tensors, all on one card, and the host is asked nothing.

    A table in the host's memory, a choice of experts and other processes need the host within a token.
    """
    return (spec.device.type == "cuda" and spec.shape.verified and not spec.shape.has_state and not spec.shape.experts
            and not spec.table_on_host and spec.mesh.processes == 1)
