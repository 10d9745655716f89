"""`workings plan`: does a recipe fit a machine that is not here."""

from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.output import JsonFlag, answer, program

if TYPE_CHECKING:
    from workings.planning.plan import Plan


def plan_command(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a shipped recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", help="Overrides, e.g. batch.micro_batch=4.")] = None,
    on: Annotated[str, typer.Option(
        "--on", help="Target, e.g. v5e-8, t4x2, rtx5090, or cpu for this machine.")] = ...,  # type: ignore[assignment]
    nearest: Annotated[bool, typer.Option(
        "--nearest/--no-nearest", help="Where it does not fit, look for the nearest plan that does.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Say whether a recipe's training step fits a target, why, and how long a step takes."""
    from workings.runs.plan import plan

    made = plan(recipe, on, overrides or (), nearest=nearest)
    answer(made.as_json(), as_json=as_json, text=table(made, recipe))
    if not made.verdict.fits:
        raise typer.Exit(1)


def table(plan: "Plan", recipe: str) -> str:
    """The plan for people."""
    from workings.planning.verdict import gib

    rows, per_row = plan.batch[1], plan.batch[2]
    lines = [
        f"plan       {plan.recipe} on {plan.target}: {plan.verdict.reasons[0]}",
        f"mesh       fsdp={plan.mesh[0]} tp={plan.mesh[1]}; {plan.batch[0]} x {rows} x {per_row} tokens an update",
        "",
        *[f"  {part.name:<32}{gib(part.size_bytes):>12}  {part.certainty}" for part in plan.parts],
        "",
        *[f"- {reason}" for reason in plan.reasons[1:]],
        *([f"- about {plan.step_seconds:.3g} s a step"] if plan.step_seconds is not None else []),
        "versions   " + ", ".join(f"{name} {version}" for name, version in plan.verdict.versions.items()),
    ]
    if plan.nearest is not None:
        lines.append(f"try        {program()} plan {recipe} --on {plan.target} " + " ".join(
            f"'{word}'" if " " in word else word for word in plan.nearest.overrides))
    return "\n".join(lines)
