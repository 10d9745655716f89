"""Level 1: the plan before launch, the measurement and the manifest agree."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks.plan_parts import part_problems
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from, not_checked, same_json
from workings.evidence.verify.result import CheckFinding
from workings.hardware.memory import PROCESS_PEAK, gib
from workings.planning.verdict import CPU_MARGINAL_SHARE, MARGINAL_SHARE, PART_GROUPS
from workings.record.canonical import dumps
from workings.record.layout import MEASURED, PLAN
from workings.record.memory_use import growth, memory_sentence
from workings.record.values import Absent

PEAK_SLACK = 0.02
"""Tolerance, as a share, between a process's memory and its peak, which the kernel counts separately."""


@check("consistency.plan", level=1, title="prediction, measurement and manifest agree; a forced run says so",
       units=every_run, example="a smaller predicted peak in the plan than in the manifest")
def plan(unit: Unit) -> Iterator[CheckFinding]:
    """The predicted peak in all files; a forced run against its verdict; memory that ran out against the events."""
    if not unit.has(PLAN):
        yield not_checked(f"no {PLAN}", unit, blocking=False)
        return
    planned = _object_or_none(unit, PLAN)
    if planned is None:  # `form.json` reports its problem
        yield not_checked(f"{PLAN} is not a JSON object", unit, blocking=False)
        return
    peak, facts = planned.get("peak_bytes"), unit.manifest.facts
    problems = []
    # A plan that does not say whether it fits contradicts nothing.
    if isinstance(fits := planned.get("fits"), bool) and not same_json(facts.get("forced", False), not fits):
        problems.append(f"{PLAN} says that it {'fits' if fits else 'does not fit'}, and facts.forced is "
                        f"{str(facts.get('forced'))[:20]}")
    if facts.get("predicted_peak_bytes", peak) != peak:
        problems.append(f"{PLAN} predicts {peak}, the manifest {facts['predicted_peak_bytes']}")
    if unit.written_by_train:
        problems += _plan_problems(unit, planned)
    if not unit.has(MEASURED):  # records made before it existed
        yield finding_from(problems, f"predicted {peak}, nothing measured beside it", unit)
        return
    measured = _object_or_none(unit, MEASURED) or {}
    problems += _measured_problems(unit, peak, measured)
    problems += _growth_problems(unit, peak, measured)
    # As JSON: to Python `true` is 1.
    if dumps([measured.get("predicted_for_batch", planned.get("batch"))]) != dumps([planned.get("batch")]):
        problems.append(f"{MEASURED} is of another batch than {PLAN}")
    if measured.get("predicted_source", planned.get("source")) != planned.get("source"):
        problems.append(f"{MEASURED} names another source of the prediction than {PLAN}")
    if measured.get("available_bytes", planned.get("available_bytes")) != planned.get("available_bytes"):
        problems.append(f"{MEASURED} and {PLAN} do not have the same memory free")
    yield finding_from(problems, "" if problems else memory_sentence(measured), unit)


def _measured_problems(unit: Unit, predicted: Any, after: dict[str, Any]) -> list[str]:
    problems = []
    repeated = after.get("predicted_peak_bytes")
    if repeated != predicted:
        problems.append(f"{MEASURED} repeats a prediction of {repeated}, {PLAN} has {predicted}")
    said, measured = unit.manifest.measured_peak_bytes, after.get("measured_peak_bytes")
    if not isinstance(said, Absent) and measured != said:
        problems.append(f"{MEASURED} has a peak of {measured}, the manifest {said}")
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
    share = CPU_MARGINAL_SHARE if unit.manifest.actual_device.platform == "cpu" else MARGINAL_SHARE
    verdict = {"fits": peak <= room, "marginal": share * room < peak <= room}
    problems = [f"{PLAN}: {name} is {plan[name]}, {gib(peak)} of {gib(room)} say {value}"
                for name, value in verdict.items() if plan.get(name, value) is not value]
    reasons = plan.get("reasons") or [""]
    if not str(reasons[0]).startswith(("fits", "does not fit")) or gib(peak) not in str(reasons[0]) or not any(
            gib(size) in str(reasons[0]) for size in (limit, room)):
        problems.append(f"{PLAN}: its first reason is {str(reasons[0])[:80]!r}, peak and limit are {gib(peak)} and "
                        f"{gib(limit)}")
    source = unit.manifest.memory_limit_source
    if f"limit from {source}" not in str(reasons[0]) and "limit from" in str(reasons[0]):
        problems.append(f"{PLAN} has another source of the limit than the manifest: {source[:40]!r}")
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
    recipe, mesh = unit.manifest.config_snapshot, unit.manifest.mesh
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


def _growth_problems(unit: Unit, predicted: Any, after: dict[str, Any]) -> list[str]:
    """Problems of the measured memory: of a CPU's process the growth is compared, of other devices the peak."""
    measured, grown = after.get("measured_peak_bytes"), after.get("growth_bytes")
    on_cpu = unit.manifest.actual_device.platform == "cpu"
    comparable = grown if on_cpu else measured
    share = after.get("measured_share_of_predicted")
    problems = []
    if isinstance(comparable, int) and isinstance(predicted, int) and predicted:
        # Rounded as `MemoryWatch.facts` rounds it.
        if share is not None and share != round(comparable / predicted, 4):
            problems.append(f"{MEASURED}: {str(share)[:20]} of the prediction, {comparable} of {predicted} are another")
    elif share is not None:
        problems.append(f"{MEASURED}: a share of the prediction, and nothing that could be compared with it")
    if not on_cpu or after.get("measured_source") != PROCESS_PEAK or type(measured) is not int:
        return problems
    before, peak_before = after.get("resident_before_bytes"), after.get("peak_before_bytes")
    # What the process held before the first weight and what it grew by are both within its highest peak.
    if type(before) is int and type(grown) is int and before + grown > measured * (1 + PEAK_SLACK):
        problems.append(f"{MEASURED}: {before} before and {grown} more, at a peak of {measured}")
    elif type(before) is int and type(peak_before) is int and (
            (expected := growth(measured, before, peak_before)) != (grown if type(grown) is int else None)):
        problems.append(f"{MEASURED}: a growth of {str(grown)[:40]}, {measured} after {before} (and a peak of "
                        f"{peak_before}) give {expected or 'none'}")
    return problems


def _object_or_none(unit: Unit, name: str) -> dict[str, Any] | None:
    """Contents of a file; None where they are not a JSON object."""
    try:
        return unit.json_object(name)
    except RecordError:
        return None
