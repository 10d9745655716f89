"""``python -m workings.reports.tracker_child NAME``: passes lines from standard input to a tracker's library.

The first line has ``project``, ``name``, ``config`` and ``folder`` of the run; each of the others is a step, such as
``{"step": 1, "metrics": {"train/loss": 1.5}}``; the last one is the run's status: ``{"end": "complete"}``.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class WandbLike:
    """wandb, and trackio, which has its interface."""

    def __init__(self, name: str, first: Mapping[str, Any]) -> None:
        self._name, self._library = name, import_module(name)
        self._library.init(project=first["project"], name=first["name"], config=first["config"])

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of a step."""
        self._library.log(dict(metrics), step=step)

    def end(self, status: str) -> None:
        """The run ended."""
        # Without an exit code wandb shows a failed run as finished; trackio has none.
        exit_options = {"exit_code": {"complete": 0, "failed": 1}.get(status, 130)} if self._name == "wandb" else {}
        self._library.finish(**exit_options)


class TensorBoardFiles:
    """Files that ``tensorboard --logdir`` shows."""

    def __init__(self, folder: str) -> None:
        self._writer = import_module("tensorboard.summary").Writer(folder)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of a step."""
        for tag, value in metrics.items():
            self._writer.add_scalar(tag, value, step)

    def end(self, status: str) -> None:
        """The run ended."""
        self._writer.close()


class MlflowRun:
    """A run on an MLflow server."""

    def __init__(self, uri: str, first: Mapping[str, Any]) -> None:
        mlflow, entities = import_module("mlflow"), import_module("mlflow.entities")
        self.client, self._metric = mlflow.MlflowClient(tracking_uri=uri), entities.Metric
        existing = self.client.get_experiment_by_name(first["project"])
        experiment = existing.experiment_id if existing else self.client.create_experiment(first["project"])
        self.id: str = self.client.create_run(experiment, run_name=first["name"]).info.run_id
        # The server refuses longer values, and more than 100 parameters in one call.
        params = [entities.Param(key, str(value)[:6_000]) for key, value in first["config"].items()]
        for start in range(0, len(params), 100):
            self.client.log_batch(self.id, params=params[start:start + 100])

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log numbers of a step."""
        now = int(1_000 * time.time())
        self.client.log_batch(self.id, metrics=[self._metric(key, value, now, step) for key, value in metrics.items()])

    def end(self, status: str) -> None:
        """The run ended."""
        self.client.set_terminated(self.id, {"complete": "FINISHED", "failed": "FAILED"}.get(status, "KILLED"))


def follow(library: WandbLike | TensorBoardFiles | MlflowRun, lines: Iterator[str]) -> None:
    """Pass everything to a library until the lines end."""
    status = "killed"  # if the lines stop without an end
    for line in lines:
        value = json.loads(line)
        if "end" in value:
            status = value["end"]
            break
        library.log(value["metrics"], value["step"])
    library.end(status)


def main(name: str) -> None:
    """Follow the lines of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = json.loads(sys.stdin.readline())
    if name == "mlflow":
        follow(MlflowRun(os.environ["MLFLOW_TRACKING_URI"], first), iter(sys.stdin))
    elif name == "tensorboard":
        follow(TensorBoardFiles(first["folder"]), iter(sys.stdin))
    else:
        follow(WandbLike(name, first), iter(sys.stdin))


if __name__ == "__main__":
    main(sys.argv[1])
