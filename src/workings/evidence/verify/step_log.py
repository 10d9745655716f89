"""Level 1: the log of the steps agrees with itself, with the manifest and with the data."""

import math
from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks import check, each_run, judged, not_checked
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import CHECKPOINTS, METRICS, STATE
from workings.record.values import Absent


@check("consistency.steps", level=1, title="steps are 1, 2, 3, … without a gap, and resumes are explained")
def steps(record: Record) -> Iterator[CheckFinding]:
    """One line a step, as many as were completed; each resume of the manifest is an event."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        manifest, numbers = unit.manifest, [row.get("step") for row in unit.metrics]
        problems = []
        # A smoothed curve or a step that was taken out shows as a gap, because the numbers start at 1 and never skip.
        if numbers != list(range(1, len(numbers) + 1)):
            gap = next(index for index, number in enumerate(numbers, start=1) if number != index)
            problems.append(f"line {gap} of {METRICS} is step {numbers[gap - 1]}")
        if len(numbers) != manifest.completed_steps:
            problems.append(f"{len(numbers)} lines, {manifest.completed_steps} completed steps")
        # A resume computes steps again, so each one has to be explained by an event of its own.
        resumes = sum(row.get("kind") == "resumed" for row in unit.events)
        if resumes != manifest.resumes:
            problems.append(f"{manifest.resumes} resumes in the manifest, {resumes} in the events")
        yield judged(problems, f"{len(numbers)} steps, {resumes} resumes", unit)
    return each_run(record, find)


@check("consistency.losses", level=1, title="first and final loss and the token counts of the manifest are the log's")
def losses(record: Record) -> Iterator[CheckFinding]:
    """Equal to the bit: both are written from the same numbers."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        manifest, rows = unit.manifest, unit.steps
        problems = []
        for name, value, index in (("first_loss", manifest.first_loss, 0), ("final_loss", manifest.final_loss, -1)):
            logged = rows[index].loss if rows else None
            # A run that ended before its first step has no loss on either side.
            if (None if isinstance(value, Absent) else value) != logged:
                problems.append(f"{name} is {value}, the log has {logged}")
        for name in ("tokens", "supervised_tokens"):
            total = sum(getattr(row, name) for row in rows)
            if total != getattr(manifest, name):
                problems.append(f"{name} is {getattr(manifest, name):,}, the log adds up to {total:,}")
        ends = f"loss {rows[0].loss} at first, {rows[-1].loss} at last" if rows else "no steps"
        yield judged(problems, ends, unit)
    return each_run(record, find)


@check("consistency.finite", level=1, title="every number of the log is finite")
def finite(record: Record) -> Iterator[CheckFinding]:
    """JSON has no NaN, but a number can be too large for a float, and a line can be without its loss."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        problems = []
        for row in unit.metrics:
            bad = [key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
            if bad or not isinstance(row.get("loss"), int | float):
                problems.append(f"step {row.get('step')}: {', '.join(bad) or 'no loss'}")
        yield judged(problems, f"{len(unit.metrics)} lines", unit)
    return each_run(record, find)


@check("consistency.supervision", level=1, title="every step learned something: supervised tokens above zero")
def supervision(record: Record) -> Iterator[CheckFinding]:
    """Supervised tokens of every step are above zero and not above its tokens."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        problems = []
        for line in unit.steps:
            if line.supervised_tokens > line.tokens:
                problems.append(f"step {line.step}: {line.supervised_tokens} supervised of {line.tokens} tokens")
        if unit.steps and not unit.manifest.supervised_tokens:
            problems.append("no supervised token in the whole run")
        manifest = unit.manifest
        yield judged(problems, f"{manifest.supervised_tokens:,} supervised of {manifest.tokens:,} tokens", unit)
    return each_run(record, find)


@check("consistency.learning_rate", level=1, title="the logged learning rate is within what the recipe asks for")
def learning_rate(record: Record) -> Iterator[CheckFinding]:
    """Never above the recipe's peak; with a constant schedule and no warm-up, exactly it."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        training = unit.manifest.config_snapshot.get("training")
        peak = training.get("learning_rate") if isinstance(training, dict) else None
        if not isinstance(training, dict) or isinstance(peak, bool) or not isinstance(peak, int | float):
            yield not_checked("the recipe's snapshot names no learning rate", unit)
            return
        # Between zero and the peak every schedule is possible; only the constant one says what each step has to have.
        rates = [step.learning_rate for step in unit.steps]
        problems = [f"step {number}: {rate:g}, the recipe's peak is {peak:g}"
                    for number, rate in enumerate(rates, start=1) if not 0 <= rate <= peak * (1 + 1e-6)]
        if training.get("schedule") == "constant" and not training.get("warmup_steps"):
            problems += [f"step {number}: {rate:g}, the constant rate is {peak:g}" for number, rate in
                         enumerate(rates, start=1) if not math.isclose(rate, peak, rel_tol=1e-6)]
        yield judged(problems, f"at most {peak:g}", unit)
    return each_run(record, find)


@check("consistency.checkpoints", level=1, title="the last checkpoint is that of the last completed step")
def last_checkpoint(record: Record) -> Iterator[CheckFinding]:
    """Its step, and the step its own state names."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        folders = sorted({name.split("/")[1] for name in unit.files if name.startswith(CHECKPOINTS + "/step_")})
        if not folders:
            yield not_checked("the run holds no checkpoint", unit, blocking=False)
            return
        numbers = [(_number(folder), _state_step(unit, folder)) for folder in folders]
        problems = [f"{folder} says it is of step {inside}" for folder, (outside, inside) in
                    zip(folders, numbers, strict=True) if outside != inside]
        last, done = max(outside for outside, _ in numbers), unit.manifest.completed_steps
        # A run that failed may have died before it could save its last step; every other one saves it before it is
        # sealed.
        if last > done or (unit.manifest.status != "failed" and last != done):
            problems.append(f"the last checkpoint is of step {last}, {done} steps were completed")
        yield judged(problems, f"step {last}", unit)
    return each_run(record, find)


def _number(folder: str) -> int:
    digits = folder.removeprefix("step_")
    # `int` refuses thousands of digits with an error of its own, so the length is tested first.
    if not digits.isdigit() or len(digits) > 12:
        raise RecordError(f"{folder[:60]}: not a checkpoint's name")
    return int(digits)


def _state_step(unit: Unit, folder: str) -> Any:
    state = unit.json(f"{CHECKPOINTS}/{folder}/{STATE}")
    return state.get("step") if isinstance(state, dict) else None
