"""A sealed run as an offline run of Weights & Biases, for `wandb sync`.

Nothing is sent. wandb's own collection of facts about the machine (host, user, processes, packages, console) is off;
the record has these facts without private data.
"""

from pathlib import Path
from typing import Any

from workings.errors import RequestError, WorkingsError
from workings.hints import pip_install
from workings.record.reader import RunRecord
from workings.reports.tracked import artifacts, numbers, scores, settings, tags

QUIET_SETTINGS: dict[str, Any] = {
    "silent": True, "console": "off", "disable_git": True, "disable_code": True, "save_code": False,
    "disable_job_creation": True, "host": "not told", "username": "not told", "email": "",
    "x_disable_meta": True, "x_disable_stats": True, "x_disable_machine_info": True, "x_save_requirements": False}
"""The settings of wandb that the installed version has."""


def write_offline(path: Path, out: Path, project: str, *, weights: bool = False) -> Path:
    """Write a sealed run as an offline run.

    Args:
        path: the run directory.
        out: folder in which wandb creates `wandb/offline-run-…`.
        project: where `wandb sync` will put it.
        weights: take checkpoints in too.

    Returns:
        The offline run, to be given to `wandb sync`.

    Raises:
        RequestError: no sealed run there, or wandb is not installed.
        WorkingsError: wandb did not write it; the run directory is unchanged.
    """
    run = RunRecord.open(path)
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise RequestError("an offline run of Weights & Biases without its package", "the package wandb",
                           pip_install("wandb")) from error
    out.mkdir(parents=True, exist_ok=True)
    # Names of settings change between versions, and an unknown one is an error.
    setting_names = wandb.Settings.model_fields
    try:
        logged = wandb.init(
            mode="offline", dir=str(out), project=project, name=path.resolve().name, config=dict(settings(path)),
            # `create_new`, because wandb would otherwise continue an open run of this process.
            notes=f"root digest {run.root}", job_type="train", reinit="create_new",
            settings=wandb.Settings(**{name: value for name, value in QUIET_SETTINGS.items() if name in setting_names}))
        for line in run.metrics():
            logged.log(dict(numbers(line)), step=line["step"])
        logged.summary.update(tags(run) | dict(scores(path)))
        _attach(wandb, logged, path, weights)
        # Ask before `finish`. `wandb sync` wants the parent of wandb's folder for files.
        place = Path(logged.dir).parent
        logged.finish()
    except (wandb.Error, OSError) as error:
        raise WorkingsError(f"wandb did not write the run: {str(error)[:500]}") from error
    return place


def _attach(wandb: Any, logged: Any, path: Path, weights: bool) -> None:
    """The record's files as one artifact."""
    record = wandb.Artifact(f"record-{path.resolve().name}", type="record")
    for file, folder in artifacts(path, weights):
        record.add_file(str(file), name=f"{folder}/{file.name}" if folder else file.name)
    logged.log_artifact(record)
