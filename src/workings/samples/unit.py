"""The sealed unit of samples: an evaluation, and what was kept of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.data.preferences import PreferencePair, iterate_pairs, pairs_bytes
from workings.data.traces import Trace, iterate_traces, traces_bytes
from workings.errors import RequestError
from workings.evaluation.predictions import read_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.record import atomic
from workings.record.canonical import line, read_json
from workings.record.layout import EVALUATION_CONFIG, KEPT, PAIRS, PREDICTIONS, SAMPLED, SELECTION
from workings.record.seal import unit_kind
from workings.samples.candidates import SampleOrigin
from workings.samples.pairs import PairRule, make_pairs
from workings.samples.selection import Counts, Selection, select

SCHEMA = "selection/1"
NO_PAIRS = {"absent": "not asked for"}


def files_of(read: Callable[[], Iterable[Sequence[Mapping[str, Any]]]], config: Mapping[str, Any],
             selection: Selection, pairs: PairRule | None) -> dict[str, bytes]:
    """What a unit of samples holds beside an evaluation, by name, from its predictions and the rules.

    Args:
        read: gives the lines of predictions, those of one prompt after the other; called once or twice.
        config: the unit's ``eval_config.json``.
        selection: what is kept.
        pairs: which pairs are made; None: none.

    Raises:
        RequestError: balanced by difficulty, and an item names none.
    """
    origin = SampleOrigin.of(config)
    selected = select(read(), selection, origin)
    # `verify` makes these bytes again and compares them, so nothing in them may depend on when or where they were made.
    files = {KEPT: traces_bytes(selected.traces)}
    made: Any = NO_PAIRS
    if pairs is not None:
        made_pairs = make_pairs(read(), pairs, origin)
        files[PAIRS] = pairs_bytes(made_pairs)
        made = {**pairs.to_json(), "made": len(made_pairs)}
    files[SELECTION] = line({"schema": SCHEMA, "selection": selection.to_json(), "counts": selected.counts.to_json(),
                             "pairs": made})
    return files


def write_files(folder: Path, selection: Selection, pairs: PairRule | None) -> None:
    """Write these files beside complete predictions; what an earlier attempt left of them is replaced."""
    # The other files are written over. This one is not where no pairs are asked for, and would be sealed as it lies.
    (folder / PAIRS).unlink(missing_ok=True)
    config = read_json(folder / EVALUATION_CONFIG)
    # Read from the file, so that memory holds what is kept and not every text that was drawn.
    for name, data in files_of(lambda: read_predictions(folder / PREDICTIONS), config, selection, pairs).items():
        atomic.write_bytes(folder / name, data)


@dataclass(frozen=True)
class SampleUnit(EvaluationRecord):
    """A sealed unit of samples that is read; `workings verify` checks that it is true."""

    @classmethod
    def open(cls, path: Path) -> "SampleUnit":
        """The unit at a path. Raises `RequestError` where there is none."""
        if unit_kind(path) != SAMPLED:
            raise RequestError(str(path), "the directory that `workings sample --out` wrote",
                               f"workings sample RUN --prompts FILE --samples K --temperature T --out {path}")
        return cls(path)

    @cached_property
    def kept(self) -> tuple[Trace, ...]:
        """The samples that were kept."""
        return tuple(iterate_traces(self.path / KEPT))

    @cached_property
    def pairs(self) -> tuple[PreferencePair, ...]:
        """The preference pairs that were made; none where none were asked for."""
        return tuple(iterate_pairs(self.path / PAIRS)) if (self.path / PAIRS).is_file() else ()

    @cached_property
    def counts(self) -> Counts:
        """How often prompts were solved, and what became of the samples."""
        counts = read_json(self.path / SELECTION)["counts"]
        return Counts(**{**counts, "classes": {} if "absent" in counts["classes"] else counts["classes"]})
