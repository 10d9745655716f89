"""Compare two runs: verdict, items that changed, and differences in recipe, data and machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from workings.errors import RecordError
from workings.evaluation.comparison.compare import Comparison, compare_records
from workings.evaluation.first_wrong_step import FirstWrongSteps, count_first_wrong_steps
from workings.evaluation.unit import EvaluationRecord, find_pair
from workings.record.layout import (
    CONFIG,
    DATA_DIGESTS,
    DEVICE_CHECKS,
    ENVIRONMENT,
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    MANIFEST,
    PREDICTIONS,
    SUMS,
)
from workings.ui.answers import Answer, Change, pair_changes, read_answers
from workings.ui.folder import Folder
from workings.ui.number_format import flat_texts

Group = Literal["recipe", "data", "environment", "code"]
CODE_FIELDS = ("commit_sha", "dirty_diff_digest", "engine_distribution")
DEVICE_FIELDS = ("platform", "kind", "count", "mesh")


def compared(folder: Folder, a: Path, b: Path, within: float | None = None) -> Comparison:
    """The comparison of two runs, cached until a file changes; ``within`` is the margin of equivalence, a share."""
    pair = find_pair(a, b)
    return folder.worked_out.get(_files(*pair), lambda: compare_records(*pair, equivalent_within=within),
                                 key=("comparison", within))


def changes(folder: Folder, a: Path, b: Path) -> dict[Change, list[tuple[Answer, Answer]]]:
    """Items of both runs by what changed from A to B."""
    pair = find_pair(a, b)
    return folder.worked_out.get(
        _files(*pair), lambda: pair_changes(*(read_answers(folder, side.path) for side in pair)), key="changes")


def wrong_steps(folder: Folder, evaluation: EvaluationRecord) -> FirstWrongSteps:
    """An evaluation's items by their first wrong equation."""
    return folder.worked_out.get(_files(evaluation), lambda: count_first_wrong_steps(evaluation), key="wrong steps")


def _files(*records: EvaluationRecord) -> list[Path]:
    names = (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS)
    return [record.path / name for record in records for name in names]


class Difference(BaseModel):
    """One fact that differs between the runs."""

    group: Group
    key: str
    values: list[str]


def differences(folder: Folder, runs: Sequence[Path]) -> list[Difference]:
    """All recorded facts that differ; a run without one says so."""
    rows: list[Difference] = []
    for group in ("recipe", "data", "environment", "code"):
        sides = [_facts(folder, run, group) for run in runs]
        for key in sorted(set().union(*sides)):
            values = [side.get(key, "not recorded") for side in sides]
            # The recipe's name differs in nearly all runs and has no effect.
            if len(set(values)) > 1 and (group, key) != ("recipe", "name"):
                rows.append(Difference(group=group, key=key, values=values))
    return rows


def _facts(folder: Folder, run: Path, group: str) -> dict[str, str]:
    def read(name: str) -> dict[str, Any]:
        try:
            return folder.object(run / name)
        except RecordError:
            return {}

    if group == "recipe":
        return flat_texts(read(CONFIG))
    if group == "environment":
        # The time of recording always differs.
        environment = {key: value for key, value in flat_texts(read(ENVIRONMENT)).items() if not key.startswith("time")}
        device = {key: value for key, value in read(DEVICE_CHECKS).items() if key in DEVICE_FIELDS}
        return environment | flat_texts({"device": device, "actual_dtypes": read(MANIFEST).get("actual_dtypes", {})})
    manifest = read(MANIFEST)
    if group == "data":
        return flat_texts(read(DATA_DIGESTS) | {"model": manifest.get("model_id", "not recorded")})
    return flat_texts({key: value for key, value in manifest.items() if key in CODE_FIELDS})
