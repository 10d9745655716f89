"""`workings doctor`: what is wrong on this machine, why it matters, and how to fix it."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workings.cli.options import OverridesArgument, refuse_unread
from workings.cli.output import JsonFlag, Meaning, answer, painted, say
from workings.errors import RequestError

if TYPE_CHECKING:
    from workings.runs.parity import Parity

RUNS, COMPARED_STEPS = Path("runs"), 20


def doctor_command(
    recipe: Annotated[str | None, typer.Argument(help="A recipe file, or the name of a shipped recipe.")] = None,
    overrides: OverridesArgument = None,
    out: Annotated[Path, typer.Option(
        "--out", help="Directory for runs: check the space on its disk.")] = RUNS,
    setup: Annotated[Literal["cuda"] | None, typer.Option(
        "--setup", help="Print how to install the PyTorch that suits this machine's card and driver.")] = None,
    engines: Annotated[bool, typer.Option(
        "--engines", help="Compare the engines on the recipe instead: same weights, same batches, float32.")] = False,
    steps: Annotated[int, typer.Option("--steps", min=6, help="With --engines: training steps to compare.")
                     ] = COMPARED_STEPS,
    own_model: Annotated[bool, typer.Option(
        "--whole", help="With --engines: the recipe's own model instead of a small one of its architecture.")] = False,
    yes: Annotated[bool, typer.Option(
        "--yes", help="With --setup: install into .venv-gpu (nothing else changes) and log every command.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Examine this machine: real kernels, drivers, wheels, versions, space."""
    if setup is None and yes:
        raise RequestError("--yes needs --setup", "--setup cuda --yes", "workings doctor --setup cuda --yes")
    compared = {"steps": steps != COMPARED_STEPS, "whole": own_model}
    examined = {"out": out != RUNS}
    if not engines:
        refuse_unread("without --engines", "these with --engines", **compared)
    if setup is not None:
        refuse_unread("with --setup", "--setup alone, or with --yes", engines=engines, **examined)
    if engines:
        refuse_unread("with --engines", "--engines with --steps and --whole", **examined)
    # First, because the libraries may not work yet on a machine that needs setup.
    if setup is not None:
        _set_up(yes, as_json)
        return
    if engines:
        _compare_engines(recipe, overrides or (), steps=steps, own_model=own_model, as_json=as_json)
        return
    from workings.config.load import load_recipe
    from workings.runs.doctor import doctor

    examination = doctor(load_recipe(recipe, overrides or ()) if recipe else None, out=out)
    answer(examination.to_json(), as_json=as_json, text=coloured(examination.text()))
    if examination.problems:
        raise typer.Exit(1)


def _compare_engines(recipe: str | None, overrides: Sequence[str], *, steps: int, own_model: bool,
                     as_json: bool) -> None:
    if recipe is None:
        raise RequestError("--engines needs a recipe", "the recipe to compare the engines on",
                           "workings doctor smoke-tiny --engines")
    from workings.runs.parity import parity

    result = parity(recipe, overrides, own_model=own_model, steps=steps)
    answer(result.to_json(), as_json=as_json, text=parity_table(result))
    if not result.passed:
        raise typer.Exit(1)


def parity_table(parity: "Parity") -> str:
    """Format the comparison for the terminal."""
    from workings.runs.parity import TOLERANCES

    lines = [f"parity     {parity.model}; {parity.steps} steps, jax and torch, float32: "
             + ("passed" if parity.passed else "FAILED")]
    # The result's fields are named like their tolerances.
    for name, limit in TOLERANCES.items():
        value = getattr(parity, name)
        verdict = "" if value <= limit else "  <- too large"
        where = f"  {parity.worst_gradient}" if name == "gradient" else ""
        lines.append(f"  {name:<10}{value:>10.1e}  at most {limit:.0e}{verdict}{where}")
    return "\n".join(lines)


def coloured(text: str) -> str:
    """Format the findings; on a terminal their marks are coloured."""
    marks: dict[str, Meaning] = {"ok": "good", "note": "warning", "WRONG": "bad"}
    # Only at the beginning of a line: findings may contain these words.
    return re.sub(r"^(ok|note|WRONG)(?= )", lambda mark: painted(mark[0], marks[mark[0]], sys.stdout), text,
                  flags=re.MULTILINE)


def _set_up(yes: bool, as_json: bool) -> None:
    from workings.doctor.finding import Finding
    from workings.doctor.nvidia import read_driver
    from workings.doctor.setup_cuda import perform, plan_setup

    plan = plan_setup(read_driver())
    if isinstance(plan, Finding):
        answer({"problems": 1, "findings": [plan.to_json()]}, as_json=as_json, text="\n".join(plan.lines()))
        raise typer.Exit(1)
    # Without --yes, only show the commands.
    if yes:
        plan = perform(plan, say)
    answer(plan.to_json(), as_json=as_json, text="\n".join(plan.lines()))
