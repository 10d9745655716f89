"""Runs on an MLflow server: parameters, metrics and, of a sealed run, evaluation and artifacts."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from workings.errors import RecordError, RequestError, WorkingsError
from workings.hints import pip_install
from workings.record.progress import slow_operation
from workings.record.reader import RunRecord
from workings.record.values import Absent, moment
from workings.reports.tracked import artifacts, numbers, scores, settings, tags

STATUS = {"complete": "FINISHED", "failed": "FAILED"}
"""MLflow's names for how a run ended; anything else is KILLED."""


class MlflowRun:
    """A run on an MLflow server, created on opening, for live and sealed runs."""

    def __init__(self, uri: str, experiment: str, name: str, config: Mapping[str, str],
                 tags: Mapping[str, str] = MappingProxyType({})) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient(tracking_uri=uri)
        existing = self.client.get_experiment_by_name(experiment)
        self.id: str = self.client.create_run(
            existing.experiment_id if existing is not None else self.client.create_experiment(experiment),
            run_name=name, tags=dict(tags)).info.run_id
        # The server refuses longer values, and more than 100 parameters or 1,000 metrics in one call.
        params = [Param(key, str(value)[:6_000]) for key, value in config.items()]
        for start in range(0, len(params), 100):
            self.client.log_batch(self.id, params=params[start:start + 100])

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of the current step."""
        self.log_rows([(metrics, step, time.time())])

    def log_rows(self, rows: Iterable[tuple[Mapping[str, float], int, float]]) -> None:
        """Log numbers of past steps, each with the time of its end in seconds since 1970."""
        from mlflow.entities import Metric

        metrics = [Metric(key, value, int(1_000 * at), step) for values, step, at in rows
                   for key, value in values.items()]
        for start in range(0, len(metrics), 1_000):
            self.client.log_batch(self.id, metrics=metrics[start:start + 1_000])

    def end(self, status: str) -> None:
        """The run ended."""
        self.client.set_terminated(self.id, STATUS.get(status, "KILLED"))


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
        RequestError: no sealed run there, an unsupported address, or the MLflow client is not installed.
        WorkingsError: the server did not accept it; the run directory is unchanged.
    """
    # A path would make MLflow write a folder here, and a database address needs its full package.
    if not uri.startswith(("http://", "https://")):
        raise RequestError(f"--mlflow {uri}", "the address of a tracking server", "mlflow server --port 5000, then "
                           "--mlflow http://127.0.0.1:5000")
    try:
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError as error:
        raise RequestError("an MLflow server without its client", "the package mlflow-skinny",
                           pip_install("track")) from error
    run = RunRecord.open(path)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its default waits for minutes
    try:
        with slow_operation(f"asking MLflow at {uri}"):
            logged = MlflowRun(uri, experiment, path.resolve().name, dict(settings(path)), tags(run))
        # From here on the run exists on the server and must not stay "running" if the upload fails.
        try:
            logged.log_rows(_rows(run, path))
            for file, folder in artifacts(path, weights):
                logged.client.log_artifact(logged.id, str(file), folder)
        except BaseException:
            logged.end("failed")
            raise
        logged.end(run.status)
    except (MlflowException, OSError) as error:
        raise WorkingsError(f"MLflow at {uri} did not accept the run: {_said(error)}") from error
    return logged.id


def _said(error: Exception) -> str:
    """The reason in a short sentence: the client wraps a missing server in five nested errors."""
    text = str(error)
    # Matched as text, because the client wraps every failed connection in its own class.
    if "Failed to establish a new connection" in text or "NameResolutionError" in text:
        return "no server answers there\ntry:      mlflow server --port 5000, then --mlflow http://127.0.0.1:5000"
    return text[:500]


def _rows(run: RunRecord, path: Path) -> Iterator[tuple[dict[str, float], int, float]]:
    """The log's numbers, then those of all evaluations."""
    elapsed, started = 0.0, _seconds(run.manifest.started_at)
    for line in run.metrics():
        # The log holds durations, so a step's time is counted from the start of the run.
        elapsed += line["seconds"]
        yield dict(numbers(line)), line["step"], started + elapsed
    yield dict(scores(path)), run.manifest.completed_steps, _seconds(run.manifest.finished_at)


def _seconds(text: str | Absent) -> float:
    if isinstance(text, Absent):
        raise RecordError(f"the manifest has no time: {text.absent}")
    return moment(text).timestamp()
