"""Values of a sealed run for external trackers. The record stays the source."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evaluation.unit import EvaluationRecord, find_units
from workings.record.canonical import read_json
from workings.record.layout import CONFIG
from workings.record.reader import RunRecord
from workings.record.values import leaves
from workings.reports.reinforcement import logged

METRICS = ("loss", "evaluation_loss", "learning_rate", "grad_norm", "share_of_weights_changed", "memory_bytes",
           "tokens", "supervised_tokens", "seconds")
"""Metrics of a line of the log, if it has them; those of `workings.reports.reinforcement.logged` are added."""
# Trackers are for numbers and texts: larger files only with weights.
LARGE_BYTES = 64 * 2 ** 20


def tags(run: RunRecord) -> dict[str, str]:
    """Tags that identify a run and its record: root digest, status, versions."""
    manifest = run.manifest
    return {"workings.root_digest": run.root, "workings.status": run.status, "workings.recipe": manifest.recipe,
            "workings.version": manifest.workings_version, "workings.engine": manifest.engine,
            "workings.hardware": manifest.hardware}


def numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Numbers of a line of the log by name: `METRICS` and those of reinforcement learning."""
    for key in METRICS:
        if isinstance(value := line.get(key), int | float):
            yield f"train/{key}", float(value)
    for key, value in logged(line).items():
        yield f"train/{key}", value


def settings(path: Path) -> Iterator[tuple[str, str]]:
    """The resolved recipe as pairs of dotted key and value."""
    yield from flat(read_json(path / CONFIG))


def flat(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of dotted key and value as text."""
    return ((key, str(value)) for key, value in leaves(values))


def artifacts(path: Path, weights: bool) -> Iterator[tuple[Path, str | None]]:
    """Files of a run with their target folders; tensors only on request."""
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path)
        # A link would upload a file from outside the record.
        if file.is_symlink() or not file.is_file() or (file.suffix == ".safetensors" and not weights):
            continue
        if file.stat().st_size > LARGE_BYTES and not weights:
            continue
        folder = relative.parent.as_posix()
        yield file, None if folder == "." else folder


def scores(path: Path) -> Iterator[tuple[str, float]]:
    """Accuracies of all evaluations of a run with their intervals, by name."""
    try:
        units = find_units(path)
    except RequestError:  # it was not evaluated
        return
    for unit in units:
        yield from _scores(unit)


def _scores(unit: EvaluationRecord) -> Iterator[tuple[str, float]]:
    cells = {"overall": unit.summary["scorecard"]["overall"]} | {
        f"section/{name}": cell for name, cell in unit.summary["scorecard"]["per_section"].items()}
    for name, cell in cells.items():
        for key, value in (("accuracy", cell["mean"]), ("ci_low", cell["ci_low"]), ("ci_high", cell["ci_high"])):
            # Trackers take numbers only: leave out absent bounds.
            if isinstance(value, int | float):
                yield f"eval/{unit.path.name}/{name}/{key}", float(value)
