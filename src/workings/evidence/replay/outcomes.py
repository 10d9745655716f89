"""Compares replayed checkpoints, and completions that are generated again, with the recorded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from workings.engines.safetensors_file import open_tensors
from workings.engines.session import ModelSession
from workings.errors import RecordError
from workings.evaluation.predictions import item_of
from workings.evaluation.run import ITEMS_AT_A_TIME, generate_batch, items_at_a_time
from workings.evaluation.settings import EvaluationSettings
from workings.evidence.replay.comparison import MAX_DIFFERENCE, Facts
from workings.models.shards import whole_file
from workings.record.digest import bytes_digest, file_digest
from workings.scoring.items import Item

OPTIMIZER = "optimizer"
"""Prefix of the files with the optimizer's state. They are compared to the bit only, without a tolerance, because a
moment near zero has no meaningful relative difference."""


def compare_weights(step: int, recorded: Path, replayed: Path) -> Facts:
    """Compare the tensors of two checkpoint folders.

    The result counts `files`, `files_identical` and `tensors`, and names the `largest_difference` and its `tensor`.
    """
    names = sorted({whole_file(path.name) for path in recorded.glob("*.safetensors")})
    same = sum(_identical(recorded / name, replayed / name) for name in names)
    largest, largest_tensor, count = 0.0, "none", 0
    for name in (name for name in names if not name.startswith(OPTIMIZER)):
        before, after = open_tensors(recorded / name), open_tensors(replayed / name)
        for tensor in before.names():
            count += 1
            difference = MAX_DIFFERENCE
            if tensor in after.names():
                difference = _relative_norm(before.read(tensor), after.read(tensor))
            if difference > largest:
                largest, largest_tensor = difference, tensor
    return {"step": step, "files": len(names), "files_identical": int(same), "tensors": count,
            "largest_difference": largest, "tensor": largest_tensor}


def _identical(recorded: Path, replayed: Path) -> bool:
    """Whether two files have the same bytes, or, if one of them is sharded, the same tensors."""
    if recorded.is_file() and replayed.is_file():
        return file_digest(recorded) == file_digest(replayed)
    before, after = open_tensors(recorded), open_tensors(replayed)
    return {*before.names()} == {*after.names()} and all(
        before.dtype(name) == after.dtype(name) and before.shape(name) == after.shape(name)
        and before.read(name).tobytes() == after.read(name).tobytes() for name in before.names())


def _relative_norm(recorded: np.ndarray, replayed: np.ndarray) -> float:
    if recorded.shape != replayed.shape or recorded.dtype != replayed.dtype:
        return MAX_DIFFERENCE
    # Bytes first: equal ones are equal also where they are no numbers, and no copy in float64 is made.
    if recorded.tobytes() == replayed.tobytes():
        return 0.0
    # In a format of 16 bits, squares and their sum would overflow or vanish.
    one, other = recorded.astype(np.float64), replayed.astype(np.float64)
    norm, distance = float(np.linalg.norm(one)), float(np.linalg.norm(one - other))
    return min(MAX_DIFFERENCE, distance / norm) if norm > 0 and np.isfinite(distance) else MAX_DIFFERENCE


@dataclass(frozen=True, kw_only=True)
class RecordedEvaluation:
    """A recorded evaluation of a run's last state, with answers that can be generated again."""

    unit: str
    """Its path in the run, e.g. `eval/items`."""
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    """Lines of its predictions."""
    by_batch: bool
    """Whether to select and generate whole recorded batches: a result may depend on all rows of its batch."""

    @cached_property
    def settings(self) -> EvaluationSettings:
        """How it was generated. Raises `RecordError` if it does not say so."""
        decoding = self.config.get("decoding")
        if not isinstance(decoding, Mapping) or "max_new_tokens" not in decoding:
            raise RecordError(f"{self.unit} does not say how it was generated")
        names = ("max_new_tokens", "batch_size", "temperature", "samples", "seed")
        return EvaluationSettings(**{name: decoding[name] for name in names})

    @property
    def batch(self) -> int:
        """Items that were generated together."""
        recorded = self.config.get(ITEMS_AT_A_TIME)
        return recorded if type(recorded) is int and recorded > 0 else items_at_a_time(self.settings)

    @cached_property
    def items(self) -> list[Item]:
        """Its items in their order. Raises `RecordError` for a line that describes none."""
        first: dict[str, Mapping[str, Any]] = {}
        for row in self.rows:
            first.setdefault(row["id"], row)
        return [item_of(row) for row in first.values()]

    @property
    def groups(self) -> list[list[Item]]:
        """The batches, or single items, from which a seed selects."""
        size = self.batch if self.by_batch else 1
        return [self.items[start:start + size] for start in range(0, len(self.items), size)]

    def groups_for(self, items: int) -> int:
        """Number of groups that hold at least this number of items in any selection; at most all.

        Of groups of 4, 4 and 2 items, any two hold at least 6. So 6 items need two groups, and 7 items all three.
        """
        groups = self.groups
        # The last group, which may be short, can be among the selected ones.
        besides_last = max(0, items - len(groups[-1]))
        return min(len(groups), 1 + ceil(besides_last / len(groups[0])))

    def items_in(self, groups: int) -> int:
        """Maximum number of items in this number of groups."""
        return min(len(self.items), groups * len(self.groups[0]))

    def batches_of(self, numbers: Sequence[int]) -> list[list[Item]]:
        """The items of the groups with these numbers, in batches that are generated together."""
        groups = self.groups
        if self.by_batch:
            return [groups[number] for number in numbers]
        items = [item for number in numbers for item in groups[number]]
        return [items[start:start + self.batch] for start in range(0, len(items), self.batch)]


def generate_again(session: ModelSession, evaluation: RecordedEvaluation, numbers: Sequence[int]
                   ) -> list[dict[str, Any]]:
    """Generate the completions of the groups with these numbers again, and compare each with the recorded one.

    Raises `RecordError` if the evaluation does not say how it was generated, or a line describes no item.
    """
    recorded = {(row["id"], row["sample"]): row for row in evaluation.rows}
    lines = []
    for batch in evaluation.batches_of(numbers):
        for answer in generate_batch(session, batch, evaluation.settings):
            text = answer.text.encode("utf-8", "replace").decode("utf-8")  # as it is recorded
            row = recorded[answer.item.id, answer.sample]
            if "completion_sha256" in row:  # an over-long one, which the record has in part
                same = bytes_digest(text.encode("utf-8")) == row["completion_sha256"]
            else:
                same = text == row["completion"]
            lines.append({"unit": evaluation.unit, "id": answer.item.id, "sample": answer.sample, "completion": text,
                          "same": bool(same)})
    return lines
