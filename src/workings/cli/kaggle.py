"""`workings launch --for kaggle`: a recipe as a Kaggle notebook."""

from collections.abc import Sequence
from pathlib import Path

from workings.cli.output import answer
from workings.errors import RequestError


def write_notebook(recipe: str, overrides: Sequence[str], out: Path, *, user: str, on: str, wheel: Path | None,
                   smoke: bool, as_json: bool) -> None:
    """Write a notebook, its script twin and its settings, and the data set with this package's wheel.

    The notebook installs the wheel by its digest.
    """
    if not user:
        raise RequestError("--for kaggle without --user", "your name on Kaggle", "--user NAME")
    from workings.publish.kaggle import write_kaggle

    paths = write_kaggle(recipe, out, overrides, user=user, on=on, wheel=wheel, smoke=smoke)
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
