"""`workings runs track`: a sealed run on an MLflow server, or as an offline run of Weights & Biases."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import RunArgument
from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError


def track_command(
    run: RunArgument,
    mlflow: Annotated[str, typer.Option(
        "--mlflow", help="MLflow's tracking server, e.g. http://127.0.0.1:5000.")] = "",
    to: Annotated[str, typer.Option("--to", help="wandb: write an offline run; nothing is sent.")] = "",
    out: Annotated[Path | None, typer.Option(
        "--out", help="Folder for the offline run; by default next to the run.")] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="Name of the experiment, or project.")] = "workings",
    weights: Annotated[bool, typer.Option("--weights", help="Upload checkpoints too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Copy a finished run to MLflow or Weights & Biases: parameters, metrics, evaluation, files."""
    # Exactly one of the two is needed.
    if bool(mlflow) == bool(to) or to not in ("", "wandb"):
        options = f"--to {to}" if to else "neither --mlflow nor --to"
        raise RequestError("--mlflow and --to" if mlflow and to else options, "--mlflow ADDRESS, or --to wandb",
                           f"workings runs track {run} --to wandb")
    if to:
        from workings.reports.wandb import write_offline

        offline_path = write_offline(run, out or run.resolve().parent, experiment, weights=weights)
        answer({"wandb": str(offline_path), "project": experiment}, as_json=as_json,
               text=f"written to {offline_path}; to upload it: wandb sync {offline_path}")
        return
    from workings.reports.mlflow import log_run

    logged = log_run(run, mlflow, experiment, weights=weights)
    answer({"mlflow_run_id": logged, "experiment": experiment}, as_json=as_json,
           text=f"logged to experiment {experiment} as run {logged}")
