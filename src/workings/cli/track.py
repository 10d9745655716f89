"""`workings track`: a sealed run on an MLflow server."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def track_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    mlflow: Annotated[str, typer.Option(
        "--mlflow", help="Tracking server, e.g. http://127.0.0.1:5000.")],
    experiment: Annotated[str, typer.Option("--experiment", help="Name of the experiment.")] = "workings",
    weights: Annotated[bool, typer.Option("--weights", help="Upload checkpoints too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Log a sealed run's parameters, metrics, evaluation and files to MLflow; the run itself is not touched."""
    from workings.reports.mlflow import log_run

    logged = log_run(run, mlflow, experiment, weights=weights)
    answer({"mlflow_run_id": logged, "experiment": experiment}, as_json=as_json,
           text=f"logged to experiment {experiment} as run {logged}")
