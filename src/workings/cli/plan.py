"""`workings plan`: does a recipe fit a machine, which need not be here?"""

from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.options import OverridesArgument, RecipeArgument, refuse_unread
from workings.cli.output import answer, program
from workings.errors import RequestError
from workings.hardware.memory import gib
from workings.record.number_text import about, duration, table_lines

if TYPE_CHECKING:
    from workings.planning.plan import Plan

MIN_PART_BYTES_SHOWN = 2**20 // 20
"""Smallest part with its own line, in bytes; a smaller one would be printed as 0.0 MiB."""


def plan_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    *,
    on: Annotated[list[str], typer.Option(
        help="Target, e.g. v5e-8, t4x2, rtx5090, or cpu for this machine; several with commas or repeated.")],
    nearest: Annotated[bool, typer.Option(
        "--nearest/--no-nearest", help="If it does not fit, look for the nearest plan that does.")] = True,
    deadline: Annotated[str, typer.Option(help="Time limit of the run, e.g. 9h or 90m.")] = "",
    formula: Annotated[bool, typer.Option("--formula", help="Only estimate by formula, at once.")] = False,
) -> None:
    """Say whether a recipe's run fits a target, why, and how long it takes."""
    from workings.config.load import load_recipe
    from workings.hardware.catalog import find_target
    from workings.runs.plan import estimate_memory, parse_duration, plan, with_deadline

    typed_names = [name for words in on for name in words.split(",") if name.strip()]
    names = list(dict.fromkeys(find_target(name).name for name in typed_names))  # without repetitions
    loaded = load_recipe(recipe, overrides or ())
    if not names:
        raise RequestError("--on names no target", "a target of the catalog", "--on v5e-8")
    if formula:
        refuse_unread("with --formula, which plans no time", "this without --formula", "deadline")
        estimates = [estimate_memory(loaded, name) for name in names]
        answer({"estimates": [estimate.to_json() for estimate in estimates]},
               "\n".join(estimate.sentence for estimate in estimates))
        return
    seconds = parse_duration(deadline) if deadline else None  # before planning, which may compile for minutes
    plans = [plan(loaded, name, nearest=nearest) for name in names]
    if seconds is not None:
        plans = [with_deadline(planned, seconds) for planned in plans]
    fits = all(planned.verdict.fits for planned in plans)
    if len(plans) == 1:
        answer(plans[0].to_json(), table(plans[0], recipe), not fits)
    else:
        answer({"fits": fits, "plans": [plan.to_json() for plan in plans]}, comparison(plans), not fits)


def table(plan: "Plan", recipe: str) -> str:
    """The plan as text for the terminal."""
    lines = [
        f"plan       {plan.recipe} on {plan.target}: {plan.verdict.reasons[0]}",
        f"mesh       {plan.mesh.sizes()}; {plan.batch.accumulation} x {plan.batch.rows} x {plan.batch.positions} "
        "tokens per update",
        "",
        *[f"  {part.name:<44}{gib(part.size_bytes):>12}  {part.certainty}" for part in plan.parts
          if abs(part.size_bytes) >= MIN_PART_BYTES_SHOWN],
        *[f"  {name:<44}{gib(size):>12}  estimated, in its own process" for name, size in plan.sampler_parts.items()],
        "",
        *[f"- {reason}" for reason in plan.reasons[1:]],
        *[f"- {line}" for line in time_lines(plan)],
        "versions   " + ", ".join(f"{name} {version}" for name, version in sorted(plan.verdict.versions.items())),
    ]
    if plan.nearest is not None:
        words = [f"'{word}'" if " " in word else word for word in plan.nearest.overrides]
        lines.append(f"try        {program()} plan {recipe} --on {plan.target} {' '.join(words)}")
    return "\n".join(lines)


def time_lines(plan: "Plan") -> list[str]:
    """Lines about the run's duration and the disk space of its checkpoints."""
    time = plan.time
    if time is None:
        return []
    lines = []
    if time.rollouts:
        lines.append(f"{about(time.rollout_sampling_seconds)} to sample a rollout, {duration(time.rollout_seconds)} of "
                     f"the run for {time.rollouts} rollouts")
    if time.reference_seconds:
        lines.append(f"at most {duration(time.reference_seconds)} for the reference to score all pairs once")
    if time.teacher_seconds:
        lines.append(f"{duration(time.teacher_seconds)} for the teacher")
    plural = "" if time.checkpoints == 1 else "s"
    lines.append(f"{about(time.step_seconds)} per step, {about(time.seconds)} for {time.steps} steps, "
                 f"{time.checkpoints} checkpoint{plural} and evaluation (not counted: {'; '.join(time.not_counted)})")
    size = gib(time.checkpoint_bytes)
    if time.checkpoints == 1:
        return [*lines, f"one checkpoint, after the last step, of {size}"]
    return [*lines, f"checkpoints of {size}, {about(time.checkpoint_every_seconds)} apart; {gib(time.disk_bytes)} of "
            f"disk for {time.checkpoints_on_disk}, the one being written included"]


def comparison(plans: list["Plan"]) -> str:
    """A table of several targets."""
    rows = [("target", "fits", "peak", "limit", "decided by", "source", "run", "nearest plan that fits")]
    for plan in plans:
        verdict = plan.verdict
        fits = "yes" if verdict.fits else "no"
        rows.append((plan.target, "marginal" if verdict.marginal else fits, gib(verdict.peak_bytes),
                     gib(verdict.limit_bytes), plan.program, verdict.source,
                     duration(plan.time.seconds) if plan.time else "-",
                     " ".join(plan.nearest.overrides) if plan.nearest else ""))
    return "\n".join(table_lines(rows, rest="<"))
