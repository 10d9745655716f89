"""Comparison of checkpoints, and of completions that are generated again, with the recorded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class AnswerPopulation:
    """Size of an evaluation with answers that can be regenerated."""

    unit: str
    items: int
    batch: int
    """Items that are generated together; 1 if each can be generated alone."""

    @property
    def batches(self) -> int:
        """Batches, or items, that are selected from."""
        return -(-self.items // self.batch)

    def items_in(self, batches: int) -> int:
        """Maximum number of items in this number of batches."""
        return min(self.items, batches * self.batch)

    def batches_for(self, items: int) -> int:
        """Number of batches that hold at least this number of items in any selection; at most all."""
        # The last batch may be short, and be among those that are selected.
        smallest = self.items - (self.batches - 1) * self.batch
        return min(self.batches, 1 + max(0, -(-(items - smallest) // self.batch)))


def compare_weights(step: int, recorded: Path, replayed: Path) -> Facts:
    """Compare the tensors of two checkpoint folders.

    The result names the `largest_difference` (its norm over the norm of the recorded tensor) and its `tensor`.
    """
    # A file and its shards count as one.
    names = sorted({whole_file(path.name) for path in recorded.glob("*.safetensors")})
    same = sum(_identical(recorded / name, replayed / name) for name in names)
    largest, largest_tensor, count = 0.0, "none", 0
    for name in (name for name in names if not name.startswith(OPTIMIZER)):
        # One pair of tensors is in memory at a time, and not two models.
        before, after = open_tensors(recorded / name), open_tensors(replayed / name)
        for tensor in before.names():
            count += 1
            difference = (_relative_norm(before.read(tensor), after.read(tensor)) if tensor in after.names()
                          else MAX_DIFFERENCE)
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
    """A recorded evaluation of a run's last state."""

    unit: str
    """Its path in the run, e.g. `eval/items`."""
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    """Lines of its predictions."""

    def answers(self, *, by_batch: bool) -> AnswerPopulation:
        """Its answers, in batches as they were generated or as single items. Raises `RecordError`."""
        settings = _settings(self)
        return AnswerPopulation(unit=self.unit, items=len({row["id"] for row in self.rows}),
                                batch=_items_per_batch(self, settings) if by_batch else 1)


def generate_again(session: ModelSession, evaluation: RecordedEvaluation, numbers: Sequence[int], *,
                   by_batch: bool) -> list[dict[str, Any]]:
    """Generate completions of some items of an evaluation again, and compare each with the recorded one.

    Args:
        session: the model.
        evaluation: the evaluation.
        numbers: numbers of the items, or of the batches, in the order of the evaluation.
        by_batch: generate whole batches as they were: the results of a batch may depend on all of its rows.

    Raises:
        RecordError: the evaluation does not say how it was generated, or a line describes no item.
    """
    settings = _settings(evaluation)
    items: dict[str, Item] = {}
    recorded: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in evaluation.rows:
        items.setdefault(row["id"], item_of(row))
        recorded[row["id"], row["sample"]] = row
    all_items, size = list(items.values()), _items_per_batch(evaluation, settings)
    selected = all_items if by_batch else [all_items[number] for number in numbers]
    batches = [selected[start:start + size] for start in range(0, len(selected), size)]
    batches = [batches[number] for number in numbers] if by_batch else batches
    lines = []
    for batch in batches:
        for answer in generate_batch(session, batch, settings):
            text = answer.text.encode("utf-8", "replace").decode("utf-8")  # as it is recorded
            row = recorded[answer.item.id, answer.sample]
            # Of an over-long completion the record has the beginning and the digest.
            same = text == row["completion"] if "completion_sha256" not in row else (
                bytes_digest(text.encode("utf-8")) == row["completion_sha256"])
            lines.append({"unit": evaluation.unit, "id": answer.item.id, "sample": answer.sample, "completion": text,
                          "same": bool(same)})
    return lines


def _items_per_batch(evaluation: RecordedEvaluation, settings: EvaluationSettings) -> int:
    """Items of a chunk, as the evaluation cut them."""
    recorded = evaluation.config.get(ITEMS_AT_A_TIME)
    # An evaluation that a sampler of another package answered names no chunk.
    return recorded if type(recorded) is int and recorded > 0 else items_at_a_time(settings)


def _settings(evaluation: RecordedEvaluation) -> EvaluationSettings:
    decoding = evaluation.config.get("decoding")
    if not isinstance(decoding, Mapping) or "max_new_tokens" not in decoding:
        raise RecordError(f"{evaluation.unit} does not say how it was generated")
    return EvaluationSettings(max_new_tokens=decoding["max_new_tokens"], batch_size=decoding["batch_size"],
                              temperature=decoding["temperature"], samples=decoding["samples"], seed=decoding["seed"])
