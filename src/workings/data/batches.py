"""Batches: rows in the epoch's order as arrays, by a position that a checkpoint can keep.

    batch, position = batches.at(Position(epoch=0, batch=0))      position: of the next batch

The plan of an epoch follows from row ids, lengths, seed and epoch number alone. So a position is two numbers, and a
resumed run finds its batch at once. Every row comes exactly once an epoch. The last batches of an epoch may hold empty
sequences (``segment_ids`` 0 everywhere); a loss that counts supervised tokens does not see them.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from workings.config.data import DataConfig
from workings.data import epoch_plan
from workings.data.epoch_plan import EpochPlan, Planned, bucket_lengths, bucket_of
from workings.data.pair_rows import PairRows
from workings.data.rows import Row, RowSet
from workings.errors import RecordError
from workings.models.batch import Batch, BatchShape


@dataclass(frozen=True, order=True)
class Position:
    """A batch by its number in its epoch; both are counted from 0."""

    epoch: int = 0
    batch: int = 0

    def to_json(self) -> dict[str, int]:
        """The position as JSON, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Position":
        """The position in a checkpoint. Raises `RecordError` for anything else."""
        # The exact type, because to `isinstance` JSON's `true` is an int.
        if set(record) != {"epoch", "batch"} or not all(type(value) is int and value >= 0 for value in record.values()):
            raise RecordError(f"data position {dict(record)!r}: epoch and batch, whole numbers, were expected")
        return cls(record["epoch"], record["batch"])


def even_accumulation(rows: int, micro_batch: int, accumulation: int) -> int:
    """The smallest accumulation that needs no more updates an epoch than this one: 5, not 8, for 20 rows in twos."""
    updates = max(1, math.ceil(rows / (micro_batch * accumulation)))
    return max(1, math.ceil(rows / (micro_batch * updates)))


class Batches:
    """All batches of a run, by position."""

    def __init__(self, rows: RowSet | PairRows, *, seed: int, rows_per_micro_batch: int, accumulation: int,
                 data_config: DataConfig) -> None:
        """An epoch is planned when its first batch is asked for; ``seed`` and the epoch's number decide its order.

        The two rows of a pair are neighbours, in a bucket that holds the longer one. ``rows_per_micro_batch`` (B) is
        over all data-parallel devices; ``accumulation`` (A) is the number of micro batches of an update.
        """
        self._entries = rows
        if isinstance(rows, PairRows):
            self._rows, self._rows_of_entry = rows.rows, 2
        else:
            self._rows, self._rows_of_entry = rows, 1
        self._seed = seed
        self._shape = (accumulation, rows_per_micro_batch)
        self._packing = data_config.packing
        self._packed = self._packing != "none"
        self._entries_of_batch = accumulation * rows_per_micro_batch // self._rows_of_entry
        self._buckets = bucket_lengths(data_config, rows.lengths, self._rows.max_length, self._entries_of_batch)
        self._plans: dict[int, EpochPlan] = {}
        self._most_supervised: dict[int, int] = {}

    def at(self, position: Position) -> tuple[Batch, Position]:
        """The batch at a position, and the position after it. Raises `RecordError` for a position of other data."""
        planned = self._planned(position)
        sequences = [[self._rows.rows[number] for number in sequence] for sequence in planned.sequences]
        batch = make_batch(sequences, self._shape, planned.length, self._rows.pad_id)
        return self._bounded(batch), self.after(position)

    def after(self, position: Position) -> Position:
        """The position of the next batch."""
        last = position.batch + 1 == self.batches_in_epoch(position.epoch)
        return Position(position.epoch + 1, 0) if last else Position(position.epoch, position.batch + 1)

    def row_ids(self, position: Position) -> list[list[str]]:
        """The row ids in each sequence of the batch at a position, empty sequences included."""
        return [[self._rows.ids[number] for number in sequence] for sequence in self._planned(position).sequences]

    def shape_at(self, position: Position) -> BatchShape:
        """Shape of the batch at a position."""
        return BatchShape(*self._shape, self._planned(position).length)

    def batches_in_epoch(self, epoch: int) -> int:
        """Number of steps in one epoch (with packing it differs a little from epoch to epoch)."""
        return len(self._plan(epoch))

    def steps_in(self, epochs: float) -> int:
        """Number of steps in this number of epochs, rounded up; at least one. 1.25 epochs of 10 steps take 13."""
        full_epochs, part = divmod(epochs, 1)
        # One by one, because with packing epochs differ in their steps.
        steps = sum(self.batches_in_epoch(epoch) for epoch in range(int(full_epochs)))
        if part:
            # Rounded before it is rounded up, because binary fractions are not exact: a tenth of ten steps is one.
            steps += math.ceil(round(part * self.batches_in_epoch(int(full_epochs)), 6))
        return max(1, steps)

    def shapes(self) -> list[BatchShape]:
        """All shapes that can come, longest first: the largest one decides whether the run fits."""
        # Without the buckets that hold no row. A batch with rows of several buckets takes the longest of them.
        used = self._buckets if self._packed else np.unique(bucket_of(self._entries.lengths, self._buckets)).tolist()
        return [BatchShape(*self._shape, length) for length in sorted(used, reverse=True)]

    def blank(self, shape: BatchShape) -> Batch:
        """A batch of one of the `shapes` without contents, for the program that the other batches take."""
        return self._bounded(Batch.blank(shape))

    def most_supervised(self, length: int) -> int:
        """The most supervised positions that a sequence of this length can have, in any epoch."""
        if length not in self._most_supervised:
            lengths, counts = self._rows.lengths, self._rows.supervised
            # The supervised share of a packed sequence is at most the largest share of its rows.
            bounds = counts * length // lengths if self._packed else counts
            self._most_supervised[length] = int(bounds[lengths <= length].max(initial=0))
        return self._most_supervised[length]

    def typical_shape(self) -> tuple[BatchShape, float]:
        """Shape of a batch of mean length in the first epoch, and the share of its positions that are supervised."""
        plan = self._plan(0)
        length = math.ceil(plan.lengths.mean())
        return BatchShape(*self._shape, length), self._rows.supervised_tokens / plan.positions

    def empty_sequences(self) -> tuple[int, int]:
        """Number of empty sequences in the first epoch's updates, and of all sequences."""
        members = self._plan(0).members
        return int((members < 0).sum()), members.size

    def padding_share(self) -> float:
        """Share of the first epoch's positions that are padding, from 0 to 1."""
        return 1 - self._rows.total_tokens / self._plan(0).positions

    @staticmethod
    def digest(batch: Batch) -> str:
        """SHA-256, as hex, of a batch: its shape, then the digests of the rows that its arrays hold.

        The rows are read from tokens, loss mask and segment ids, which the engine is given. `digest_at` computes the
        same digest from a run's row index, so a verifier can compare the two.
        """
        return _sequences_digest(batch.tokens.shape, _row_digests(batch))

    def digest_at(self, position: Position, row_digests: Mapping[str, str]) -> str:
        """The batch's digest from those of its rows, by id. Raises `RecordError` for a position of other data."""
        return _sequences_digest(self.shape_at(position),
                                 [[row_digests[row_id] for row_id in ids] for ids in self.row_ids(position)])

    def _planned(self, position: Position) -> Planned:
        plan = self._plan(position.epoch)
        if position.batch >= len(plan):
            raise RecordError(f"data position {position}: epoch {position.epoch} has {len(plan)} batches only; "
                              "it belongs to other data")
        return plan[position.batch]

    def _plan(self, epoch: int) -> EpochPlan:
        if epoch not in self._plans:
            order, lengths = epoch_plan.epoch_order(self._entries.ids, self._seed, epoch), self._entries.lengths
            if self._packed:
                plan = epoch_plan.plan_packed(order, lengths, self._packing, self._buckets[0], self._entries_of_batch)
            else:
                plan = epoch_plan.plan_bucketed(order, lengths, self._buckets, self._entries_of_batch)
            if self._rows_of_entry > 1:
                plan = plan.with_rows(self._rows_of_entry)
            # Only one epoch is kept: the plan of a million rows has 30 MB.
            self._plans = {epoch: plan}
        return self._plans[epoch]

    def _bounded(self, batch: Batch) -> Batch:
        """The batch with as many `loss_positions` as any batch of its shape can need."""
        return batch.with_loss_positions(self.most_supervised(batch.tokens.shape[2]))


def _row_digests(batch: Batch) -> list[list[str]]:
    """`Row.digest` of each row in each of the A x B sequences. A row is a run of one segment id above 0.

    Segment ids `1 1 1 2 2 0` have borders at 0, 3 and 5: a row of 3 tokens, one of 2, and padding.
    """
    length = batch.tokens.shape[-1]
    # A 0 on both sides, so that each row has two borders.
    segments = np.pad(batch.segment_ids.reshape(-1, length), ((0, 0), (1, 1)))
    sequence, border = np.nonzero(segments[:, 1:] != segments[:, :-1])
    # The mask of a row marks learned tokens; that of a batch marks the positions that predict them, one earlier.
    mask = np.zeros((len(segments), length + 1), np.uint8)
    mask[:, 1:] = batch.loss_mask.reshape(-1, length)
    mask[sequence, border] = 0  # no position predicts the first token of a row
    # Little-endian on every machine, as in `Row.digest`; slices of a memoryview copy nothing.
    token_bytes = memoryview(batch.tokens.astype("<i4", copy=False).tobytes())
    mask_bytes = memoryview(mask[:, :length].tobytes())
    digests: list[list[str]] = [[] for _ in segments]
    # Borders as positions in all sequences laid end to end. Between two borders is a row or padding.
    borders = (sequence * length + border).tolist()
    begins_row = (segments[sequence, border + 1] > 0).tolist()
    for (start, end), is_row in zip(pairwise(borders), begins_row, strict=False):
        if is_row:
            digest = hashlib.sha256(token_bytes[4 * start:4 * end])
            digest.update(mask_bytes[start:end])
            digests[start // length].append(digest.hexdigest())
    return digests


def _sequences_digest(shape: tuple[int, ...], sequences: Sequence[Sequence[str]]) -> str:
    """SHA-256, as hex, of the line `A,B,S` and a line for each sequence: its rows' digests with spaces between them."""
    lines = [",".join(str(size) for size in shape), *(" ".join(digests) for digests in sequences)]
    return hashlib.sha256("".join(text + "\n" for text in lines).encode()).hexdigest()


def make_batch(sequences: Sequence[Sequence[Row]], shape: tuple[int, int], length: int, pad_id: int) -> Batch:
    """Arrays ``[A, B, S]`` from rows. Targets and loss mask are shifted by one position, within each row.

    A row of tokens `5 6 7 8` with the mask `0 0 1 1` gives targets `0 7 8 0` and the mask `0 1 1 0`.

    ``sequences``: A x B sequences of rows, in order, each of at most ``length`` (S) tokens; an empty one becomes
    padding. ``shape``: (A, B).
    """
    flat = (len(sequences), length)
    tokens = np.full(flat, pad_id, np.int32)
    targets, positions, segments = (np.zeros(flat, np.int32) for _ in range(3))
    loss_mask = np.zeros(flat, np.float32)
    for number, rows in enumerate(sequences):
        start = 0
        for segment, row in enumerate(rows, start=1):
            end = start + len(row.tokens)
            tokens[number, start:end] = row.tokens
            # The last position of a row predicts nothing.
            loss_mask[number, start:end - 1] = row.loss_mask[1:]
            targets[number, start:end - 1] = row.tokens[1:] * row.loss_mask[1:]
            positions[number, start:end] = np.arange(len(row.tokens))
            # Positions restart with each row, so that a packed row is computed like a single one.
            segments[number, start:end] = segment
            start = end
    full = (*shape, length)
    return Batch(tokens=tokens.reshape(full), targets=targets.reshape(full), loss_mask=loss_mask.reshape(full),
                 positions=positions.reshape(full), segment_ids=segments.reshape(full))


def fixed_batches(rows: RowSet, rows_per_batch: int, data_config: DataConfig) -> list[Batch]:
    """Batches for an evaluation loss: A = 1, one row in each sequence, empty sequences in the last batch.

    The rows keep their order. With `data.buckets: auto` the longest come first, so that similar lengths share a batch.
    """
    lengths = rows.lengths
    buckets = bucket_lengths(data_config, lengths, rows.max_length, rows_per_batch)
    order = np.argsort(-lengths, kind="stable") if data_config.chooses_buckets else np.arange(len(lengths))
    batches = []
    for start in range(0, len(order), rows_per_batch):
        numbers = order[start:start + rows_per_batch]
        # The longest row decides the length of its batch; buckets keep the number of programs to compile small.
        length = int(bucket_of(lengths[numbers].max(), buckets))
        sequences: list[list[Row]] = [[rows.rows[number]] for number in numbers]
        sequences += [[]] * (rows_per_batch - len(numbers))
        batches.append(make_batch(sequences, (1, rows_per_batch), length, rows.pad_id))
    return batches
