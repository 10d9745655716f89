"""Level 1: the plan before launch agrees with itself and with the recipe, and the measurement with the events."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks.plan_parts import part_problems
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.hardware.memory import PROCESS_PEAK, gib
from workings.planning.verdict import CPU_MARGINAL_SHARE, MARGINAL_SHARE, PART_GROUPS
from workings.record.layout import MEASURED, PLAN
from workings.record.memory_use import growth, memory_sentence

PEAK_SLACK = 0.02
"""Tolerance, as a share, between a process's memory and its peak, which the kernel counts separately."""


@check("consistency.plan", level=1, title="the plan agrees with itself, with the recipe and with the measured memory",
       units=every_run, example="a predicted peak that is smaller than the sum of its parts")
def plan(unit: Unit) -> Iterator[CheckFinding]:
    """Verdict, parts and batch of the plan; growth of the process; memory that ran out against the events."""
    if not unit.has(PLAN):
        yield not_checked(f"no {PLAN}", unit, blocking=False)
        return
    planned = _object_or_none(unit, PLAN)
    if planned is None:  # `form.json` reports its problem
        yield not_checked(f"{PLAN} is not a JSON object", unit, blocking=False)
        return
    peak, problems = planned.get("peak_bytes"), list[str]()
    if unit.written_by_train:
        problems += _plan_problems(unit, planned)
    if not unit.has(MEASURED):  # records made before it existed
        yield finding_from(problems, f"predicted {peak}, nothing measured beside it", unit)
        return
    measured = _object_or_none(unit, MEASURED) or {}
    problems += _end_problems(unit, measured)
    problems += _growth_problems(unit, measured)
    yield finding_from(problems, "" if problems else memory_sentence(planned, measured), unit)


def _end_problems(unit: Unit, after: dict[str, Any]) -> list[str]:
    """Memory that ran out, in the measurement, the events and the status."""
    problems = []
    events = sum(row.get("kind") == "out_of_memory" for row in unit.events)
    # Running out of memory ends a run, so status, event and measurement have to tell of it together.
    if isinstance(after.get("out_of_memory"), str) != bool(events) or (events and unit.manifest.status != "failed"):
        problems.append(f"memory ran out, the run is {unit.manifest.status} and has {events} events about it"
                        if isinstance(after.get("out_of_memory"), str) or unit.manifest.status != "failed"
                        else f"{events} events of memory that ran out, {MEASURED} has none")
    return problems


def _plan_problems(unit: Unit, plan: dict[str, Any]) -> list[str]:
    """Problems of the plan itself: verdict and reasons against peak and limit, batch against the recipe."""
    peak, limit, free = plan.get("peak_bytes"), plan.get("limit_bytes"), plan.get("available_bytes")
    if type(peak) is not int or type(limit) is not int or peak < 0:
        return [f"{PLAN}: peak_bytes or limit_bytes is no number of bytes"]
    room = min(limit, free) if isinstance(free, int) else limit
    share = CPU_MARGINAL_SHARE if unit.manifest.device.platform == "cpu" else MARGINAL_SHARE
    verdict = {"fits": peak <= room, "marginal": share * room < peak <= room}
    problems = [f"{PLAN}: {name} is {plan[name]}, {gib(peak)} of {gib(room)} say {value}"
                for name, value in verdict.items() if plan.get(name, value) is not value]
    reasons = plan.get("reasons") or [""]
    if not str(reasons[0]).startswith(("fits", "does not fit")) or gib(peak) not in str(reasons[0]) or not any(
            gib(size) in str(reasons[0]) for size in (limit, room)):
        problems.append(f"{PLAN}: its first reason is {str(reasons[0])[:80]!r}, peak and limit are {gib(peak)} and "
                        f"{gib(limit)}")
    peaks, program, batch = plan.get("peaks"), plan.get("program"), plan.get("batch")
    if isinstance(peaks, dict) and (peaks.get(program) != peak or peak != max(peaks.values(), default=peak)):
        problems.append(f"{PLAN}: peak_bytes is not the largest of peaks, that of {str(program)[:20]!r}")
    culprit = str(plan.get("culprit") or "")
    parts = [part for part in plan.get("parts") or [] if isinstance(part, dict)]
    # What it names is a part, or a group of them: moments are the optimizer's state to people.
    names = {str(part.get("name")) for part in parts}
    names |= {group for group, members in PART_GROUPS if names & set(members)}
    if parts and not any(name in culprit for name in names):
        problems.append(f"{PLAN}: the culprit is none of its parts")
    return problems + part_problems(unit, plan) + _batch_problems(unit, batch)


def _batch_problems(unit: Unit, batch: Any) -> list[str]:
    """Problems of the planned batch, compared with the recipe: accumulation, rows, positions."""
    recipe, mesh = unit.manifest.config, unit.manifest.device.mesh
    rows = recipe.get("batch") or {}
    longest = (recipe.get("data") or {}).get("max_length")
    expected = [rows.get("accumulation"), rows.get("micro_batch", 0) * mesh.get("fsdp", 1)]
    if (not isinstance(batch, list) or [type(size) for size in batch] != [int] * 3 or batch[:2] != expected
            or not 1 <= batch[2] <= longest):
        return [f"{PLAN}: planned for a batch of {str(batch)[:40]}, the recipe gives {expected} of {longest} positions"]
    used = [line["positions"] // (batch[0] * batch[1]) for line in unit.metrics if type(line.get("positions")) is int]
    if used and max(used) > batch[2]:
        return [f"{PLAN}: planned for {batch[2]} positions, a step had {max(used)}"]
    return []


def _growth_problems(unit: Unit, after: dict[str, Any]) -> list[str]:
    """Problems of the measured memory of a CPU's process: what it held, what it grew by, and its peak."""
    measured, grown = after.get("measured_peak_bytes"), after.get("growth_bytes")
    if unit.manifest.device.platform != "cpu" or after.get("measured_source") != PROCESS_PEAK or (
            type(measured) is not int):
        return []
    before, peak_before = after.get("resident_before_bytes"), after.get("peak_before_bytes")
    # What the process held before the first weight and what it grew by are both within its highest peak.
    if type(before) is int and type(grown) is int and before + grown > measured * (1 + PEAK_SLACK):
        return [f"{MEASURED}: {before} before and {grown} more, at a peak of {measured}"]
    if type(before) is int and type(peak_before) is int and (
            (expected := growth(measured, before, peak_before)) != (grown if type(grown) is int else None)):
        return [f"{MEASURED}: a growth of {str(grown)[:40]}, {measured} after {before} (and a peak of {peak_before}) "
                f"give {expected or 'none'}"]
    return []


def _object_or_none(unit: Unit, name: str) -> dict[str, Any] | None:
    """Contents of a file; None where they are not a JSON object."""
    try:
        return unit.json_object(name)
    except RecordError:
        return None
