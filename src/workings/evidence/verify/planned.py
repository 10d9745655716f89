"""Level 1: the plan before launch, what was measured, and the manifest tell the same story."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks import check, each_run, judged, not_checked
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import MEASURED, PLAN
from workings.record.values import Absent


@check("consistency.plan", level=1, title="prediction, measurement and manifest agree; a forced run says so")
def plan(record: Record) -> Iterator[CheckFinding]:
    """The predicted peak is the same everywhere, a verdict of no was forced, memory that ran out is an event."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        if not unit.has(PLAN):
            yield not_checked(f"no {PLAN}", unit, blocking=False)
            return
        before = _object(unit, PLAN)
        if before is None:  # `form.json` says what is wrong with it
            yield not_checked(f"{PLAN} is not a JSON object", unit, blocking=False)
            return
        peak, facts = before.get("peak_bytes"), unit.manifest.facts
        problems = []
        # `is False`: a plan that does not say whether it fits contradicts nothing.
        if before.get("fits") is False and facts.get("forced") is not True:
            problems.append(f"{PLAN} says that it does not fit, and facts.forced is {facts.get('forced')}")
        if before.get("fits") is True and facts.get("forced") is True:
            problems.append(f"{PLAN} says that it fits, and facts.forced is true")
        if facts.get("predicted_peak_bytes", peak) != peak:
            problems.append(f"{PLAN} predicts {peak}, the manifest {facts['predicted_peak_bytes']}")
        if not unit.has(MEASURED):  # records made before it existed
            yield judged(problems, f"predicted {peak}, nothing measured beside it", unit)
            return
        after = _object(unit, MEASURED) or {}
        problems += _measured_problems(unit, peak, after)
        yield judged(problems, f"predicted {peak}, measured {after.get('measured_peak_bytes')}", unit)
    return each_run(record, find)


def _measured_problems(unit: Unit, predicted: Any, after: dict[str, Any]) -> list[str]:
    problems = []
    repeated = after.get("predicted_peak_bytes")
    if repeated != predicted:
        problems.append(f"{MEASURED} repeats a prediction of {repeated}, {PLAN} has {predicted}")
    said = unit.manifest.measured_peak_bytes
    if not isinstance(said, Absent) and after.get("measured_peak_bytes") != said:
        problems.append(f"{MEASURED} has a peak of {after.get('measured_peak_bytes')}, the manifest {said}")
    events = sum(row.get("kind") == "out_of_memory" for row in unit.events)
    # Running out of memory ends a run, so status, event and measurement have to tell of it together.
    if isinstance(after.get("out_of_memory"), str) and (not events or unit.manifest.status != "failed"):
        problems.append(f"memory ran out, the run is {unit.manifest.status} and has {events} events about it")
    return problems


def _object(unit: Unit, name: str) -> dict[str, Any] | None:
    try:
        value = unit.json(name)
    except RecordError:
        return None
    return value if isinstance(value, dict) else None
