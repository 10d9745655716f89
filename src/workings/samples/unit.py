"""The sealed unit of samples: an evaluation with the selection of its samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.data.preferences import PreferencePair, iterate_pairs
from workings.data.row_fields import lines_bytes
from workings.data.traces import Trace, iterate_traces, traces_bytes
from workings.errors import RequestError
from workings.evaluation.predictions import item_of, read_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.record import atomic
from workings.record.canonical import line, read_json
from workings.record.layout import EVALUATION_CONFIG, KEPT, PAIRS, PREDICTIONS, SAMPLED, SELECTION
from workings.record.seal import unit_kind
from workings.samples.selection import RIGHT, Counts, PairRule, SampleOrigin, Selection, make_pairs, select
from workings.scoring.items import Item

SCHEMA = "selection/1"


def selection_files(read: Callable[[], Iterable[Sequence[Mapping[str, Any]]]], config: Mapping[str, Any],
                    selection: Selection, pairs: PairRule | None) -> dict[str, bytes]:
    """The files of a unit that follow from predictions and rules, by name.

    ``read`` reads the lines of predictions, prompt by prompt; ``config`` is the unit's ``eval_config.json``.
    """
    origin = SampleOrigin.from_config(config)
    traces, counts = select(read(), selection, origin)
    # `verify` regenerates these bytes, so they must not depend on time or machine.
    files = {KEPT: traces_bytes(traces)}
    pairs_json: dict[str, Any] = {"absent": "not requested"}
    if pairs is not None:
        preference_pairs = make_pairs(read(), pairs, origin)
        files[PAIRS] = lines_bytes(pair.to_json() for pair in preference_pairs)
        pairs_json = {**asdict(pairs), "made": len(preference_pairs)}
    files[SELECTION] = line({"schema": SCHEMA, "selection": asdict(selection), "counts": asdict(counts),
                             "pairs": pairs_json})
    return files


def write_files(folder: Path, selection: Selection, pairs: PairRule | None) -> None:
    """Writes these files next to complete predictions; those of an earlier attempt are replaced."""
    # Without pairs this file is not written over, and the one of an earlier attempt would be sealed.
    (folder / PAIRS).unlink(missing_ok=True)
    config = read_json(folder / EVALUATION_CONFIG)
    # Read from the file, so that memory holds the kept samples and not all.
    for name, data in selection_files(lambda: read_predictions(folder / PREDICTIONS), config, selection, pairs).items():
        atomic.write_bytes(folder / name, data)


@dataclass(frozen=True)
class SampleUnit(EvaluationRecord):
    """A sealed unit of samples; `workings verify` checks its contents."""

    @classmethod
    def open(cls, path: Path) -> "SampleUnit":
        """Opens the unit at a path. Raises `RequestError` without one."""
        if unit_kind(path) != SAMPLED:
            raise RequestError(f"{path} holds no samples", "the directory that `workings data sample --out` wrote",
                               f"workings data sample RUN --prompts FILE --samples K --temperature T --out {path}")
        return cls(path)

    @cached_property
    def kept(self) -> tuple[Trace, ...]:
        """The samples that were kept."""
        return tuple(iterate_traces(self.path / KEPT))

    @cached_property
    def pairs(self) -> tuple[PreferencePair, ...]:
        """The preference pairs; empty if none were requested."""
        return tuple(iterate_pairs(self.path / PAIRS)) if (self.path / PAIRS).is_file() else ()

    def sometimes_solved(self) -> list[Item]:
        """The prompts with correct and wrong samples, whose groups have different rewards."""
        return [item_of(samples[0]) for samples in read_predictions(self.path / PREDICTIONS)
                if 0 < sum(sample["score"] == RIGHT for sample in samples) < len(samples)]

    @cached_property
    def counts(self) -> Counts:
        """Counts of solved prompts, and of kept and left-out samples."""
        return Counts(**read_json(self.path / SELECTION)["counts"])
