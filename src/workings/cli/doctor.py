"""`workings doctor`: what is wrong on this machine, why it matters, and how to fix it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from workings.cli.options import OverridesArgument, refuse_unread
from workings.cli.output import answer
from workings.errors import RequestError


def doctor_command(
    recipe: Annotated[str | None, typer.Argument(help="A recipe file, or the name of a shipped recipe.")] = None,
    overrides: OverridesArgument = None,
    out: Annotated[Path, typer.Option(help="Directory for runs: check the space on its disk.")] = Path("runs"),
    setup: Annotated[Literal["cuda"] | None, typer.Option(
        help="Print how to install the PyTorch that suits this machine's card and driver.")] = None,
    engines: Annotated[bool, typer.Option(
        "--engines", help="Compare the engines on the recipe instead: same weights, same batches, float32.")] = False,
    steps: Annotated[int, typer.Option(min=6, help="With --engines: training steps to compare.")] = 20,
    whole: Annotated[bool, typer.Option(
        "--whole", help="With --engines: the recipe's own model instead of a small one of its architecture.")] = False,
) -> None:
    """Examine this machine: real kernels, drivers, wheels, versions, space."""
    # Before anything is imported that may not work on a machine without setup.
    if setup is not None:
        refuse_unread("with --setup", "--setup alone", "engines", "steps", "whole", "out")
        from workings.doctor.finding import Finding
        from workings.doctor.nvidia import read_driver
        from workings.doctor.setup_cuda import plan_setup

        plan = plan_setup(read_driver())
        if isinstance(plan, Finding):
            answer({"problems": 1, "findings": [plan.to_json()]}, "\n".join(plan.lines()), 1)
        else:
            answer(plan.to_json(), "\n".join(plan.lines()))
        return
    if engines:
        refuse_unread("with --engines", "--engines with --steps and --whole", "out")
        if recipe is None:
            raise RequestError("--engines needs a recipe", "the recipe to compare the engines on",
                               "workings doctor smoke-tiny --engines")
        from workings.runs.parity import parity

        result = parity(recipe, overrides or (), own_model=whole, steps=steps)
        answer(result.to_json(), result.text(), not result.passed)
        return
    refuse_unread("without --engines", "these with --engines", "steps", "whole")
    from workings.config.load import load_recipe
    from workings.runs.doctor import doctor

    examination = doctor(load_recipe(recipe, overrides or ()) if recipe else None, out=out)
    answer(examination.to_json(), examination.text(), bool(examination.problems))
