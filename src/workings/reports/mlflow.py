"""A sealed run on an MLflow server: parameters, metrics, evaluation and artifacts. The record stays the source."""

import os
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError, WorkingsError
from workings.hints import pip_install
from workings.record.progress import slow_operation
from workings.record.reader import RunRecord
from workings.record.values import Absent, moment
from workings.reports.tracked import artifacts, numbers, scores, settings, tags

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
    # A path would make MLflow write a folder here, and a database address needs its full package.
    if not uri.startswith(("http://", "https://")):
        raise RequestError(f"--mlflow {uri}", "the address of a tracking server", "mlflow server --port 5000, then "
                           "--mlflow http://127.0.0.1:5000")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError as error:
        raise RequestError("an MLflow server without its client", "the package mlflow-skinny",
                           pip_install("track")) from error
    run = RunRecord.open(path)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its default waits for minutes
    client = MlflowClient(tracking_uri=uri)
    try:
        with slow_operation(f"asking MLflow at {uri}"):
            existing = client.get_experiment_by_name(experiment)
        experiment_id = existing.experiment_id if existing is not None else client.create_experiment(experiment)
        logged = client.create_run(experiment_id, run_name=path.resolve().name, tags=tags(run)).info.run_id
        # The run exists on the server from here on, and must not stay "running" there when the upload fails.
        try:
            _log(client, logged, run, path, weights)
        except BaseException:
            client.set_terminated(logged, "FAILED")
            raise
        client.set_terminated(logged, "FINISHED" if run.status == "complete" else "KILLED")
    except (MlflowException, OSError) as error:
        raise WorkingsError(f"MLflow at {uri} did not take the run: {_said(error)}") from error
    return str(logged)


def _said(error: Exception) -> str:
    """Why, for humans: where no server answers, a library of a library says it in five nested errors."""
    text = str(error)
    # Matched as text, because the client wraps every failed connection in its own class.
    if "Failed to establish a new connection" in text or "NameResolutionError" in text:
        return "no server answers there\ntry:      mlflow server --port 5000, then --mlflow http://127.0.0.1:5000"
    return text[:500]


def _log(client: Any, logged: str, run: RunRecord, path: Path, weights: bool) -> None:
    from mlflow.entities import Metric, Param

    # The server refuses longer values, and more than 100 parameters in one call.
    params = [Param(key, value[:6_000]) for key, value in settings(path)]
    for start in range(0, len(params), 100):
        client.log_batch(logged, params=params[start:start + 100])
    started = _milliseconds(run.manifest.started_at)
    metrics, elapsed = [], 0.0
    for line in run.metrics():
        # The log holds durations and no times, so a step's time is counted from the start of the run.
        elapsed += line["seconds"]
        metrics += [Metric(key, value, int(started + 1_000 * elapsed), line["step"]) for key, value in numbers(line)]
    metrics += [Metric(key, value, _milliseconds(run.manifest.finished_at), run.manifest.completed_steps)
                for key, value in scores(path)]
    for start in range(0, len(metrics), BATCH):
        client.log_batch(logged, metrics=metrics[start:start + BATCH])
    for file, folder in artifacts(path, weights):
        client.log_artifact(logged, str(file), folder)


def _milliseconds(text: str | Absent) -> int:
    if isinstance(text, Absent):
        raise RecordError(f"the manifest has no time: {text.absent}")
    return int(moment(text).timestamp() * 1_000)
