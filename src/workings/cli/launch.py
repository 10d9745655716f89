"""`workings launch`: write the files that start a run on another machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from workings.cli.options import OverridesArgument, RecipeArgument, refuse_unread
from workings.cli.output import answer
from workings.errors import RequestError


def launch_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    *,
    launcher: Annotated[Literal["slurm", "kubernetes", "skypilot", "kaggle"], typer.Option(
        "--for", help="Launcher to write the files for.")],
    write: Annotated[Path, typer.Option(metavar="DIR", help="Folder to make for the files.")],
    on: Annotated[str, typer.Option(
        help="Target, e.g. h100 or v5e-16; v5e: the smallest slice that fits. Kaggle: v5e-8 or t4x2; "
        "by default as the recipe's device.")] = "",
    home: Annotated[str, typer.Option(
        help="Absolute path of that folder on the other machine, visible to all hosts.")] = "/shared/workings",
    hosts: Annotated[int, typer.Option(min=0, help="Number of hosts; 0: as few as fit.")] = 0,
    cards: Annotated[int, typer.Option(min=0, help="Cards per host; 0: as the target has.")] = 0,
    name: Annotated[str, typer.Option(help="Name of the run and the job; by default the recipe's.")] = "",
    image: Annotated[str, typer.Option(help="Kubernetes: image that workings is installed in.")] = "",
    claim: Annotated[str, typer.Option(
        help="Kubernetes: volume claim that holds --home.", show_default="workings")] = "",
    storage: Annotated[str, typer.Option(help="SkyPilot: bucket for the runs.")] = "",
    wheel: Annotated[Path | None, typer.Option(
        help="SkyPilot, Kaggle: this package's wheel, which the machine installs by its digest; Kaggle's is "
        "built from the checkout by default.")] = None,
    user: Annotated[str, typer.Option(help="Kaggle: your name there.")] = "",
    smoke: Annotated[bool, typer.Option(
        "--smoke", help="Kaggle: make the notebook run everything with a tiny model on a CPU.")] = False,
) -> None:
    """Write job files for Slurm, Kubernetes, SkyPilot or Kaggle; start nothing.

    The planner picks hosts or slice. The files name the plan, the recipe's digest and the paths of data and weights
    there, and resume after a restart. Kaggle gets a notebook and a data set with this package's wheel.
    """
    if launcher == "kaggle":
        refuse_unread("with --for kaggle", "these with another launcher", "home", "hosts", "cards", "name", "image",
                      "claim", "storage")
        if not user:
            raise RequestError("--for kaggle needs --user", "your name on Kaggle", "--user NAME")
        from workings.publish.kaggle import write_kaggle

        made = write_kaggle(recipe, write, overrides or (), user=user, on=on, wheel=wheel, smoke=smoke)
        lines = [f"notebook for {made.machine.editor_name}: {made.notebook}",
                 f"data set with the wheel: {made.dataset}", "",
                 f"  kaggle datasets create -p {made.dataset} --dir-mode zip   "
                 "(later: kaggle datasets version -p … -m …)",
                 f"  kaggle kernels push -p {made.notebook}"]
        if made.gated:
            lines.append(f"{made.gated} comes from the Hub: if it is gated, accept its licence there and attach the "
                         "secret HF_TOKEN in the notebook's editor (Add-ons, Secrets)")
        answer(made.to_json(), "\n".join(lines))
        return
    refuse_unread(f"with --for {launcher}", "these with --for kaggle", "user", "smoke")
    if not on:
        raise RequestError("--on is missing", "the target, e.g. h100 or v5e-16", "--on h100")
    from workings.config.load import load_recipe
    from workings.runs.launch import LaunchRequest, launch

    result = launch(load_recipe(recipe, overrides or ()), LaunchRequest(
        launcher=launcher, target=on, remote_folder=home, hosts=hosts, cards=cards, name=name, image=image,
        volume_claim=claim, storage=storage, wheel=wheel), write)
    job = result.job
    answer(result.to_json(), "\n".join([
        f"launch     {job.name}: {job.hosts} x {job.devices} devices of {job.target}, engine {job.engine}",
        f"plan       {job.plan}",
        *(f"files      {sentence}" for sentence in job.file_notes),
        f"written    {result.folder}: {', '.join(result.files)}",
        "           validated, not run: nothing was started",
        f"start      put the folder at {job.remote_folder}, and there: {result.start}"]))
