"""Items of an evaluation by the line of their first wrong equation, from its predictions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workings.evaluation.predictions import read_predictions
from workings.evaluation.scorecard import mean_interval
from workings.evaluation.statistics.intervals import Interval
from workings.evaluation.unit import EvaluationRecord
from workings.record.layout import PREDICTIONS
from workings.scoring.steps import wrong_place

RIGHT, RIGHT_WITH_WRONG_STEP = "right, no wrong equation", "right, a wrong equation"
NOT_FOUND, UNSCORED = "wrong, no wrong equation", "could not be scored"
FIRST_LINES = 5
"""Lines with separate kinds; later lines share the last kind."""
LATER_LINE = f"wrong from line {FIRST_LINES + 1}+"
WRONG_STEP_KINDS = (RIGHT_WITH_WRONG_STEP, *(f"wrong from line {line} on" for line in range(1, FIRST_LINES + 1)),
                    LATER_LINE)
"""Kinds with a step that is wrong."""
KINDS = (RIGHT, *WRONG_STEP_KINDS, NOT_FOUND, UNSCORED)
"""All kinds of items, in the order in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class FirstWrongSteps:
    """Counts of an evaluation's items by kind, in table order, by the first sample of each."""

    kinds: dict[str, int]
    clusters: dict[str, list[str]]
    """Clusters of the items of each kind, for the intervals."""

    @property
    def items(self) -> int:
        """All of them."""
        return sum(self.kinds.values())

    def share(self, kind: str) -> tuple[float, Interval | str]:
        """Share of the items that are of this kind, with its interval."""
        values, names = [], []
        for name, clusters in self.clusters.items():
            values += [float(name == kind)] * len(clusters)
            names += clusters
        return sum(values) / len(values), mean_interval(values, names)


def kind_of_item(sample: dict[str, Any]) -> str:
    """The kind of a prediction: by its score and the line of the first wrong equation."""
    if "error" in sample or not isinstance(sample["completion"], str):
        return UNSCORED
    return kind_of_text(sample["completion"], right=sample["score"] == 1)


def kind_of_text(completion: str, *, right: bool) -> str:
    """The kind of a completion that was scored."""
    wrong_step = wrong_place(completion)
    if right:
        return RIGHT_WITH_WRONG_STEP if wrong_step else RIGHT
    if wrong_step is None:
        return NOT_FOUND
    # `RIGHT_WITH_WRONG_STEP` comes first in the tuple, so that the number of a line is its index; the last is
    # `LATER_LINE`.
    return WRONG_STEP_KINDS[min(wrong_step.line, FIRST_LINES + 1)]


def count_first_wrong_steps(record: EvaluationRecord) -> FirstWrongSteps:
    """Count the items of a sealed evaluation. Raises `RecordError` for unreadable predictions."""
    return first_wrong_steps_of(samples[0] for samples in read_predictions(record.path / PREDICTIONS))


def first_wrong_steps_of(samples: Iterable[dict[str, Any]]) -> FirstWrongSteps:
    """Count items (at least one), one sample each."""
    clusters: dict[str, list[str]] = {}
    for sample in samples:
        clusters.setdefault(kind_of_item(sample), []).append(str(sample.get("cluster", "")))
    counts = Counter({kind: len(items) for kind, items in clusters.items()})
    return FirstWrongSteps(kinds={kind: counts[kind] for kind in KINDS if counts[kind]}, clusters=clusters)
