"""A sealed run on an MLflow server: parameters, metrics, evaluation and artifacts. The record stays the source."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError, WorkingsError
from workings.evaluation.units import EvaluationRecord, find_units
from workings.record.absent import Absent
from workings.record.canonical import loads
from workings.record.layout import CONFIG
from workings.record.reader import Run

METRICS = ("loss", "evaluation_loss", "learning_rate", "grad_norm", "share_of_weights_changed", "memory_bytes",
           "tokens", "supervised_tokens", "seconds")
LARGE_BYTES = 64 * 2 ** 20
BATCH = 1_000
"""Metrics that the server takes in one call."""


def log_run(path: Path, uri: str, experiment: str, *, weights: bool = False) -> str:
    """Log a sealed run.

    Args:
        path: the run directory.
        uri: address of a tracking server.
        experiment: its name; made where it does not exist.
        weights: upload checkpoints too.

    Returns:
        MLflow's id of the run.

    Raises:
        RequestError: no sealed run there, no such kind of address, or the MLflow client is not installed.
        WorkingsError: the server did not take it; nothing of the run directory was changed.
    """
    if not uri.startswith(("http://", "https://")):
        raise RequestError(f"--mlflow {uri}", "the address of a tracking server", "mlflow server --port 5000, then "
                           "--mlflow http://127.0.0.1:5000")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError as error:
        raise RequestError("an MLflow server without its client", "the package mlflow-skinny",
                           "pip install 'workings[track]'") from error
    run = Run.open(path)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its default waits for minutes
    client = MlflowClient(tracking_uri=uri)
    try:
        found = client.get_experiment_by_name(experiment)
        place = found.experiment_id if found is not None else client.create_experiment(experiment)
        logged = client.create_run(place, run_name=path.resolve().name, tags=_tags(run)).info.run_id
        try:
            _log(client, logged, run, path, weights)
        except BaseException:
            client.set_terminated(logged, "FAILED")
            raise
        client.set_terminated(logged, "FINISHED" if run.status == "complete" else "KILLED")
    except (MlflowException, OSError) as error:
        raise WorkingsError(f"MLflow at {uri} did not take the run: {str(error)[:500]}") from error
    return str(logged)


def _tags(run: Run) -> dict[str, str]:
    manifest = run.manifest
    return {"workings.root_digest": run.root, "workings.status": run.status, "workings.recipe": manifest.recipe,
            "workings.version": manifest.workings_version, "workings.engine": manifest.engine,
            "workings.hardware": manifest.hardware}


def _log(client: Any, logged: str, run: Run, path: Path, weights: bool) -> None:
    from mlflow.entities import Metric, Param

    settings = [Param(key, value[:6_000]) for key, value in _flat(loads((path / CONFIG).read_bytes()))]
    for start in range(0, len(settings), 100):
        client.log_batch(logged, params=settings[start:start + 100])
    started = _milliseconds(run.manifest.started_at)
    metrics, elapsed = [], 0.0
    for line in run.metrics():
        elapsed += line["seconds"]
        metrics += [Metric(f"train/{key}", float(line[key]), int(started + 1_000 * elapsed), line["step"])
                    for key in METRICS if isinstance(line.get(key), int | float)]
    metrics += [Metric(key, value, _milliseconds(run.manifest.finished_at), run.manifest.completed_steps)
                for unit in _units(path) for key, value in _scores(unit)]
    for start in range(0, len(metrics), BATCH):
        client.log_batch(logged, metrics=metrics[start:start + BATCH])
    for file, folder in artifacts(path, weights):
        client.log_artifact(logged, str(file), folder)


def artifacts(path: Path, weights: bool) -> Iterator[tuple[Path, str | None]]:
    """Files of a run and the folder each goes to; tensors only where they are asked for."""
    for file in sorted(path.rglob("*")):
        relative = file.relative_to(path)
        if file.is_symlink() or not file.is_file() or (file.suffix == ".safetensors" and not weights):
            continue
        if file.stat().st_size > LARGE_BYTES and not weights:
            continue
        folder = relative.parent.as_posix()
        yield file, None if folder == "." else folder


def _units(path: Path) -> list[EvaluationRecord]:
    try:
        return find_units(path)
    except RequestError:  # it was not evaluated
        return []


def _scores(unit: EvaluationRecord) -> Iterator[tuple[str, float]]:
    cells = {"overall": unit.summary["scorecard"]["overall"]} | {
        f"section/{name}": cell for name, cell in unit.summary["scorecard"]["per_section"].items()}
    for name, cell in cells.items():
        for key, value in (("accuracy", cell["mean"]), ("ci_low", cell["ci_low"]), ("ci_high", cell["ci_high"])):
            if isinstance(value, int | float):
                yield f"eval/{unit.path.name}/{name}/{key}", float(value)


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, str(value)


def _milliseconds(text: str | Absent) -> int:
    if isinstance(text, Absent):
        raise RecordError(f"the manifest has no time: {text.absent}")
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
