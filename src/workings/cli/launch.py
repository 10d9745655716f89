"""`workings launch` and `workings fetch`: files that start a run on another machine, and the finished run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workings.cli.output import JsonFlag, answer

if TYPE_CHECKING:
    from workings.runs.launch import LaunchResult
from shlex import quote


def launch_command(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a shipped recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", help="Overrides, e.g. engine=torch.")] = None,
    launcher: Annotated[Literal["slurm", "kubernetes", "skypilot"], typer.Option(
        "--for", help="Launcher that the files are for.")] = ...,  # type: ignore[assignment]
    on: Annotated[str, typer.Option(
        "--on", help="Target, e.g. h100 or v5e-16; v5e: the smallest slice that fits.",
    )] = ...,  # type: ignore[assignment]
    write: Annotated[Path, typer.Option(
        "--write", metavar="DIR", help="Folder to make for the files.")] = ...,  # type: ignore[assignment]
    home: Annotated[str, typer.Option(
        "--home", help="Absolute path of that folder on the other machine, where all hosts see it.",
    )] = "/shared/workings",
    hosts: Annotated[int, typer.Option("--hosts", min=0, help="Hosts with cards; 0: as few as fit.")] = 0,
    cards: Annotated[int, typer.Option("--cards", min=0, help="Cards of a host; 0: as the target has.")] = 0,
    name: Annotated[str, typer.Option("--name", help="Name of the run and the job; by default the recipe's.")] = "",
    image: Annotated[str, typer.Option("--image", help="Kubernetes: image that workings is installed in.")] = "",
    claim: Annotated[str, typer.Option("--claim", help="Kubernetes: volume claim that holds --home.")] = "workings",
    storage: Annotated[str, typer.Option("--storage", help="SkyPilot: bucket for the runs.")] = "",
    wheel: Annotated[Path | None, typer.Option(
        "--wheel", help="SkyPilot: this package's wheel, which the rented machine installs by its digest.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the files that start a run on another machine; start nothing.

    The planner picks hosts or slice. The files name the plan, the recipe's digest and the paths of data and weights
    there, and go on after a restart.
    """
    from workings.config.load import load_recipe
    from workings.runs.launch import LaunchRequest, launch

    result = launch(load_recipe(recipe, overrides or ()), LaunchRequest(
        launcher=launcher, target=on, remote_folder=home, hosts=hosts, cards=cards, name=name, image=image,
        volume_claim=claim,
        storage=storage, wheel=wheel), write)
    answer(result.to_json(), as_json=as_json, text=_text(result))


def _text(result: "LaunchResult") -> str:
    job = result.job
    return "\n".join([
        f"launch     {job.name}: {job.hosts} x {job.devices} devices of {job.target}, engine {job.engine}",
        f"plan       {job.plan}",
        *(f"files      {sentence}" for sentence in job.file_notes),
        f"written    {result.folder}: {', '.join(result.files)}",
        "           validated, not run: nothing was started",
        f"start      put the folder at {job.remote_folder}, and there: {result.start}"])


def fetch_command(
    source: Annotated[str, typer.Option(
        "--from", help="Address of a sealed run, a folder of runs, or a pack: gs://… or s3://….")],
    out: Annotated[Path, typer.Option("--out", help="Folder (of a pack: file) to make.")],
    expect_root: Annotated[str, typer.Option("--expect-root", help="Root digest that was kept elsewhere.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Copy a finished run out of an object store, and verify that it is what was sealed.

    Needs the extra `stores`. What differs from its seal is refused, and nothing is left behind.
    """
    from workings.runs.fetch import fetch

    fetched = fetch(source, out, expect_root)
    answer(fetched.to_json(), as_json=as_json,
           text=f"{fetched.path}: every file as it was sealed, root {fetched.root}\n"
                f"all checks: workings verify {quote(str(fetched.path))}")
