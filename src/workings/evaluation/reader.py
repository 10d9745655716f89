"""Finding and reading evaluation units: a run directory's ``eval/<name>``, or the place of ``eval --out``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.predictions import read_results
from workings.evaluation.scorecard import ItemResult
from workings.record.canonical import loads
from workings.record.digest import file_digest
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, MANIFEST, PARTIAL_SUFFIX, PREDICTIONS, SUMS
from workings.record.seal import parse_sums, root_digest

DEFAULT_NAME = "items"
"""The unit that a run's own evaluation is written to, and that is meant when a run directory has several."""


@dataclass(frozen=True)
class EvaluationRecord:
    """A sealed evaluation unit that is read."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """``eval_config.json``."""
        return _object(self.path / EVALUATION_CONFIG)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``eval_summary.json``."""
        return _object(self.path / EVALUATION_SUMMARY)

    @cached_property
    def run(self) -> Path | None:
        """The run directory it stands in, or None."""
        parent = self.path.resolve().parent.parent
        return parent if self.path.resolve().parent.name == "eval" and (parent / MANIFEST).is_file() else None

    @property
    def name(self) -> str:
        """The run's name where it stands in one (with the unit's, if that is not the default), else its folder's."""
        if self.run is None:
            return self.path.resolve().name
        unit = self.path.resolve().name
        return self.run.name if unit == DEFAULT_NAME else f"{self.run.name}/eval/{unit}"

    @property
    def items_digest(self) -> str:
        """Digest of the items that were asked."""
        return str(self.config["items"]["digest"])

    @property
    def root(self) -> str:
        """Root digest of the unit."""
        return root_digest(self.path)

    def results(self) -> list[ItemResult]:
        """What counts of every item.

        Raises:
            RecordError: the predictions are not the ones that were sealed, or hold an item twice.
        """
        sums = parse_sums((self.path / SUMS).read_bytes())
        for name in (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS):
            if sums.get(name) != file_digest(self.path / name):
                raise RecordError(f"{self.path / name} is not the file that was sealed")
        results = list(read_results(self.path / PREDICTIONS, str(self.config["aggregate"])))
        if len({result.id for result in results}) != len(results):
            raise RecordError(f"{self.path / PREDICTIONS} holds an item twice")
        return results


def find_units(path: Path) -> list[EvaluationRecord]:
    """The sealed evaluation units that a path offers, by name.

    Raises:
        RequestError: there is none.
    """
    if (path / EVALUATION_SUMMARY).is_file():
        return [EvaluationRecord(path)]
    found = [EvaluationRecord(place.parent) for place in sorted(path.glob(f"eval/*/{EVALUATION_SUMMARY}"))
             if not place.parent.name.endswith(PARTIAL_SUFFIX)]
    if not found:
        raise RequestError(str(path), "a run directory with an evaluation, or the directory that `eval --out` wrote",
                           f"workings eval {path} --items ITEMS.jsonl --out {path}/eval/{DEFAULT_NAME}")
    return found


def find_unit(path: Path) -> EvaluationRecord:
    """The one unit that a path means: its only one, or the one named `items`.

    Raises:
        RequestError: there is none, or several and none of them is named `items`.
    """
    return _only(path, find_units(path))


def find_pair(a: Path, b: Path) -> tuple[EvaluationRecord, EvaluationRecord]:
    """The two units that a comparison means; where a side offers several, those on the same items count."""
    offers_a, offers_b = find_units(a), find_units(b)
    if len(offers_a) > 1 or len(offers_b) > 1:
        digests = {unit.items_digest for unit in offers_a} & {unit.items_digest for unit in offers_b}
        offers_a = [unit for unit in offers_a if unit.items_digest in digests] or offers_a
        offers_b = [unit for unit in offers_b if unit.items_digest in digests] or offers_b
    return _only(a, offers_a), _only(b, offers_b)


def read_scorecard(path: Path) -> dict[str, Any]:
    """The scorecard of a run or unit: `overall`, `per_section`, `per_category`, `per_difficulty`."""
    scorecard = find_unit(path).summary["scorecard"]
    if not isinstance(scorecard, dict):
        raise RecordError(f"{path}: its summary has no scorecard")
    return scorecard


def _only(path: Path, units: Sequence[EvaluationRecord]) -> EvaluationRecord:
    named = [unit for unit in units if unit.path.name == DEFAULT_NAME]
    if len(units) == 1 or named:
        return (named or list(units))[0]
    raise RequestError(f"{path}, which has {len(units)} evaluations", "one of them",
                       " or ".join(str(unit.path) for unit in units))


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RecordError(f"{path} is missing")
    value = loads(path.read_bytes())
    if not isinstance(value, dict):
        raise RecordError(f"{path} is not a JSON object")
    return value
