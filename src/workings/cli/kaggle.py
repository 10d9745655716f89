"""`workings kaggle`: a recipe as a Kaggle notebook."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def kaggle_command(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a shipped recipe.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    user: Annotated[str, typer.Option("--user", help="Your name on Kaggle.")],
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", help="Overrides; they become part of the notebook's recipe.")] = None,
    on: Annotated[str, typer.Option("--on", help="v5e-8 or t4x2; by default as the recipe's device.")] = "",
    wheel: Annotated[Path | None, typer.Option(
        "--wheel", help="This package's wheel; by default built from the checkout.")] = None,
    smoke: Annotated[bool, typer.Option(
        "--smoke", help="A notebook that runs it all with a tiny model on a CPU.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a notebook, its script twin and its settings.

    Beside them the data set with this package's wheel, which the notebook installs by its digest.
    """
    from workings.publish.kaggle import write_kaggle

    paths = write_kaggle(recipe, out, overrides or (), user=user, on=on, wheel=wheel, smoke=smoke)
    values = {"notebook": str(paths.notebook), "dataset": str(paths.dataset), "kernel_id": paths.kernel_id,
              "dataset_id": paths.dataset_id, "machine": paths.machine.editor_name,
              "wheel_sha256": paths.wheel_sha256}
    # Commands for the person to type: nothing is uploaded from here.
    steps = [f"notebook for {paths.machine.editor_name}: {paths.notebook}",
             f"data set with the wheel: {paths.dataset}", "",
             f"  kaggle datasets create -p {paths.dataset} --dir-mode zip   (later: kaggle datasets version -p … -m …)",
             f"  kaggle kernels push -p {paths.notebook}"]
    if paths.gated:
        steps.append(f"{paths.gated} comes from the Hub: if it is gated, accept its licence there and attach the "
                     "secret HF_TOKEN in the notebook's editor (Add-ons, Secrets)")
    answer(values, as_json=as_json, text="\n".join(steps))
