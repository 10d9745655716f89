"""Level 1: recipe, manifest, seal, times and evaluations of a run agree."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from workings.evidence.verify.checks.evaluation_lines import ANSWERED_HERE
from workings.evidence.verify.checks.run_events import announcement_problems, end_problems
from workings.evidence.verify.learning import early_end_of
from workings.evidence.verify.record import STARTS, Record, Unit
from workings.evidence.verify.registry import (
    check,
    every_evaluation,
    finding_from,
    for_each_unit,
    not_checked,
    record_check,
)
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import (
    DATA_DIGESTS,
    EVALUATION_CONFIG,
    EVALUATION_UNITS,
    MEASURED,
    PLAN,
    SUMS,
)
from workings.record.values import CLOCK_SLACK, is_absent, moment

FIRST_RECORDS = datetime(2026, 11, 1, tzinfo=UTC)
"""No record of this form is older."""
CLOCK_DIFFERENCE = timedelta(days=1)
"""Largest difference between the clocks of two machines."""


@check("consistency.recipe", when=lambda unit: unit.written_by_train)
def config(unit: Unit) -> Iterator[CheckFinding]:
    """Digests of evaluation data against the recipe; the event that announces the evaluation."""
    problems = [*_measured_problems(unit, unit.manifest.config), *announcement_problems(unit)]
    yield finding_from(problems, f"config digest {unit.manifest.config_digest[:16]}…", unit)


@check("consistency.steps")
def status(unit: Unit) -> Iterator[CheckFinding]:
    """Status and steps of manifest, seal and plan, reason of the end: complete only if every planned step was done."""
    manifest, problems = unit.manifest, []
    if unit.seal["status"] != manifest.status:
        problems.append(f"the seal says {unit.seal['status']}, the manifest {manifest.status}")
    if manifest.status == "complete" and manifest.completed_steps != manifest.planned_steps and not early_end_of(unit):
        problems.append(f"complete, with {manifest.completed_steps} of {manifest.planned_steps} steps")
    if manifest.completed_steps > manifest.planned_steps:
        problems.append(f"{manifest.completed_steps} steps done, {manifest.planned_steps} planned")
    # Only the last event counts, because a run that failed once may have been resumed and completed.
    if manifest.status != "failed" and _failed_at_the_end(unit):
        problems.append(f"{manifest.status}, and the last of its events says that it failed")
    problems += end_problems(unit)
    steps = f"{manifest.completed_steps} of {manifest.planned_steps} steps"
    yield finding_from(problems, f"{manifest.status}, {steps}", unit)


@check("consistency.time_and_memory")
def time_and_memory(unit: Unit) -> Iterator[CheckFinding]:
    """Clocks in order, steps not longer than the run; peak of limit and log."""
    manifest = unit.manifest
    start, end = moment(manifest.started_at), moment(manifest.finished_at)
    problems = []
    if end < start:
        problems.append("finished before it started")
    seconds = sum(step.seconds for step in unit.steps)
    # A second of slack: the clock of the steps and the clock of the day are two clocks.
    if seconds > (end - start).total_seconds() + 1:
        problems.append(f"{seconds:.1f} s of steps in {(end - start).total_seconds():.1f} s")
    moments = [moment(str(row.get("time"))) for row in unit.events]
    problems += [f"event {number + 1} is earlier than event {number}"
                 for number, (earlier, later) in enumerate(pairwise(moments), start=1) if later < earlier - CLOCK_SLACK]
    problems += _memory_problems(unit)
    if unit.written_by_train:
        problems += _date_problems(unit, start, end, moments)
    yield finding_from(problems, f"{seconds:.1f} s of steps, {manifest.started_at} to {manifest.finished_at}", unit)


@record_check("consistency.made_from")
def made_from(record: Record) -> Iterator[CheckFinding]:
    """The seal's origin is the root digest of the run around it; settings that repeat it agree."""
    # An evaluation of an untrained model is alone, and its origin may be next to it.
    roots = {unit.root for unit in record.units if unit.has(SUMS)}

    def find(unit: Unit) -> Iterator[CheckFinding]:
        origin = unit.seal["made_from"]
        problems = []
        if unit.parent is not None and unit.kind in EVALUATION_UNITS and origin != unit.parent.root:
            problems.append(f"made from {_origin_text(origin)}, it is in a run with root {unit.parent.root[:16]}…")
        if unit.kind in EVALUATION_UNITS:
            config = unit.json(EVALUATION_CONFIG)
            if not isinstance(config, dict) or _origin_text(config.get("made_from", origin)) != _origin_text(origin):
                problems.append(f"{EVALUATION_CONFIG} names another origin than the seal")
        if unit.parent is None and not is_absent(origin) and origin not in roots:
            yield not_checked(f"made from {_origin_text(origin)}, which is not here", unit, blocking=False)
        yield finding_from(problems, f"made from {_origin_text(origin)}", unit)
    return for_each_unit([unit for unit in record.units if not unit.is_run], find)


@check("consistency.made_from", every_evaluation)
def evaluated_model(unit: Unit) -> Iterator[CheckFinding]:
    """What the evaluation's settings say of the model against the manifest of the run."""
    run, settings = unit.parent, unit.json_object(EVALUATION_CONFIG)
    if run is None:
        return
    pairs = (("tokenizer", "digest", run.manifest.data_digests.get("tokenizer")),
             ("engine", "name", run.manifest.engine))
    problems = [f"{part} {key} is {str(settings[part].get(key))[:40]!r}, the run's is {str(expected)[:40]!r}"
                for part, key, expected in pairs if isinstance(settings.get(part), dict) and expected is not None
                and not is_absent(settings[part]) and settings[part].get(key) != expected]
    if isinstance(settings.get("source"), dict) and settings["source"].get("kind") not in ANSWERED_HERE:
        problems.append(f"completions are {str(settings['source'].get('kind'))[:40]!r}, not generated by the run")
    yield finding_from(problems, f"engine {run.manifest.engine!r} and the run's tokenizer", unit)


def _failed_at_the_end(unit: Unit) -> bool:
    """Whether the events after the last start say that the run failed; an earlier attempt may have failed."""
    kinds = [row.get("kind") for row in unit.events if row.get("kind") in (*STARTS, "failed")]
    return kinds[-1:] == ["failed"]


def _measured_problems(unit: Unit, snapshot: dict[str, Any]) -> list[str]:
    """Problems of the evaluation's data: those that the recipe names have a digest, and no others."""
    section = snapshot.get("evaluation")
    if not isinstance(section, dict):
        return []
    digests = unit.manifest.data_digests
    return [f"the recipe's evaluation.{key} is {str(section.get(key))[:40]!r}, and {DATA_DIGESTS} has "
            f"{'one' if name in digests else 'none'} of {name}"
            for key, name in (("items", "items"), ("traces", "evaluation_traces"))
            if (name in digests) is (section.get(key, "none") == "none")]


def _date_problems(unit: Unit, start: datetime, end: datetime, events: list[datetime]) -> list[str]:
    """Problems of dates: none before the first records or in the future; events are within the run."""
    problems = [f"{name} is {when.date()}, {why}" for name, when in (("started_at", start), ("finished_at", end))
                for why, wrong in (("before records of this form were made", when < FIRST_RECORDS),
                                   ("and that is still to come", when > datetime.now(UTC) + CLOCK_DIFFERENCE)) if wrong]
    kinds = [str(row.get("kind")) for row in unit.events]
    if "started" not in kinds:
        return [*problems, "no event tells of the start"]
    # The event of a failure is written when all else is known.
    if events[-1] > end + CLOCK_SLACK:
        problems.append(f"the last event is of {events[-1]}, the run ended at {end}")
    return problems


def _memory_problems(unit: Unit) -> list[str]:
    """Problems of the measured peak: within the device's memory, not below the log, which never falls."""
    peak, limit = (unit.json_object(file).get(key) if unit.has(file) else None
                   for file, key in ((MEASURED, "measured_peak_bytes"), (PLAN, "limit_bytes")))
    problems = []
    if isinstance(peak, int) and isinstance(limit, int) and 0 < limit < peak:
        problems.append(f"peak of {peak:,} bytes on a device with {limit:,}")
    # A resumed run has the peak of its last process, and lines of the earlier ones.
    if unit.manifest.resumes:
        return problems
    logged = [step.memory_bytes for step in unit.steps if isinstance(step.memory_bytes, int)]
    if unit.written_by_train and logged != sorted(logged):
        problems.append("the peak of the log falls")
    if isinstance(peak, int) and logged and peak < max(logged):
        problems.append(f"a measured peak of {peak:,} bytes, {max(logged):,} in the log")
    return problems


def _origin_text(origin: Any) -> str:
    return "no other unit" if is_absent(origin) else str(origin)[:16] + "…"
