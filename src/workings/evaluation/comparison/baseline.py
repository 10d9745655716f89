"""A baseline: the results of one evaluation in a small file, for later comparisons.

One file per name and set of items, ``<folder>/<name>/<first 16 digits of the items' digest>.json``, to commit to a
repository; the run itself is no longer needed. It holds no prompts or completions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.answer_counts import AnswerCounts
from workings.evaluation.scorecard import ItemResult
from workings.evaluation.unit import EvaluationRecord
from workings.record import atomic
from workings.record.canonical import loads

SCHEMA = "baseline/1"
# Read by `compare_configs`.
_CONFIG = ("schema", "items", "scorer", "extraction", "steps", "template", "decoding", "aggregate")
_FIELDS = ("section", "category", "difficulty", "cluster", "error")


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The results that a gate compares with."""

    name: str
    made_from: str
    """Root digest of the evaluation."""
    source: str
    """Name of the evaluated run."""
    config: dict[str, Any]
    """The parts of ``eval_config.json`` that must agree."""
    results: list[ItemResult]
    counts: AnswerCounts
    """Counts of its answers."""


def baseline_path(folder: Path, name: str, items_digest: str) -> Path:
    """Path of a baseline. Raises `RequestError` for a name that is not a plain file name."""
    # The name becomes a folder: no separators, no leading dot.
    if not name or not all(character.isalnum() or character in "-_." for character in name) or name.startswith("."):
        raise RequestError(f"baseline name {name!r} is not allowed", "letters, digits, '-', '_' and '.'")
    return folder / name / f"{items_digest[:16]}.json"


def set_baseline(folder: Path, name: str, record: EvaluationRecord) -> Path:
    """Save an evaluation as a baseline; replaces one of the same name and items."""
    path = baseline_path(folder, name, record.items_digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, {
        "schema": SCHEMA, "name": name, "source": record.name, "made_from": record.root,
        "config": {key: record.config[key] for key in _CONFIG if key in record.config},
        "answers": record.answer_counts.to_json(), "results": [_result_json(result) for result in record.results()]})
    return path


def read_baseline(folder: Path, name: str, items_digest: str) -> Baseline:
    """The baseline of this name for these items.

    Raises:
        RequestError: none exists; the message names the items that have one.
        RecordError: the file is not one of ours.
    """
    path = baseline_path(folder, name, items_digest)
    if not path.is_file():
        # The folder of this name also has its baselines for other items.
        others = sorted(path.parent.glob("*.json")) if path.parent.is_dir() else []
        hint = f"; there are {len(others)} for other items" if others else ""
        raise RequestError(f"{folder} has no --baseline {name} for items {items_digest[:16]}…{hint}",
                           "a baseline on the same items", f"workings gate RUN --save {name}")
    value = loads(path.read_bytes())
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise RecordError(f"{path} is not a baseline that this version reads")
    try:
        return Baseline(name=value["name"], made_from=value["made_from"], source=value["source"],
                        config=value["config"], results=[_result(entry) for entry in value["results"]],
                        counts=AnswerCounts(**value["answers"]))
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None


def _result_json(result: ItemResult) -> dict[str, Any]:
    record: dict[str, Any] = {"id": result.id, "score": result.score, "measures": result.measures}
    return record | {name: getattr(result, name) for name in _FIELDS if getattr(result, name)}


def _result(entry: dict[str, Any]) -> ItemResult:
    texts = {name: str(entry.get(name, "")) for name in _FIELDS}
    return ItemResult(id=entry["id"], score=float(entry["score"]), measures=dict(entry["measures"]), **texts)
