"""Level 1: manifest, seal, times, tokenizer, evaluations and views of a run agree."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from workings.evidence.pack.form import PACK
from workings.evidence.readmes import pack_readme, run_readme
from workings.evidence.verify.checks.evaluation_lines import ANSWERED_HERE
from workings.evidence.verify.record import PACK_KIND, STARTS, Unit, field_of
from workings.evidence.verify.registry import Found, check, contradictions, not_checked
from workings.models.tokenizer import tokenizer_digest
from workings.plugins import OURS
from workings.record import layout
from workings.record.manifest import REASONS
from workings.record.values import CLOCK_SLACK, is_absent, moment

FIRST_RECORDS = datetime(2026, 11, 1, tzinfo=UTC)
"""No record of this form is older."""
CLOCK_DIFFERENCE = timedelta(days=1)
"""Largest difference between the clocks of two machines."""
_NOT_FINITE = re.compile(r"step (\d{1,12}): loss ")
_OUT_OF_MEMORY = re.compile(r"out of memory after step (\d{1,12})\b")


@check("consistency.steps")
def status(unit: Unit) -> Found:
    """Status and steps of manifest, seal and plan, reason of the end: complete only if every planned step was done."""
    manifest = unit.manifest
    if unit.seal["status"] != manifest.status:
        yield f"the seal says {unit.seal['status']}, the manifest {manifest.status}"
    if manifest.status == "complete" and manifest.completed_steps != manifest.planned_steps and not unit.early_end:
        yield f"complete, with {manifest.completed_steps} of {manifest.planned_steps} steps"
    if manifest.completed_steps > manifest.planned_steps:
        yield f"{manifest.completed_steps} steps done, {manifest.planned_steps} planned"
    # Only the last event counts, because a run that failed once may have been resumed and completed.
    kinds = [row.get("kind") for row in unit.events if row.get("kind") in (*STARTS, "failed")]
    if manifest.status != "failed" and kinds[-1:] == ["failed"]:
        yield f"{manifest.status}, and the last of its events says that it failed"
    if unit.written_by_this_version:
        yield from _end_problems(unit)
    return f"{manifest.status}, {manifest.completed_steps} of {manifest.planned_steps} steps"


def _end_problems(unit: Unit) -> Iterator[str]:
    """The reason of the end, against the status; of a failed run, against its last event and the step that failed."""
    manifest, reason = unit.manifest, unit.manifest.status_reason
    early_end = unit.early_end if manifest.status == "complete" else ""
    expected = early_end or REASONS.get(manifest.status, reason)
    if reason != expected:
        yield f"{manifest.status}, and the reason is {reason[:60]!r} instead of {expected!r}"
    if manifest.status == "interrupted" and manifest.completed_steps == manifest.planned_steps:
        yield "interrupted, but every planned step was taken"
    kinds = [row.get("kind") for row in unit.events]
    failures = kinds.count("failed")
    if failures > len(unit.starts):
        yield f"{failures} events tell of a failure, {len(unit.starts)} of a start"
    if manifest.status != "failed":
        return
    if kinds[-1:] != ["failed"] or unit.events[-1].get("reason") != reason:
        yield f"failed for {reason[:60]!r}, and the last event is {str(unit.events[-1:])[:120]}"
    if reason in REASONS.values():
        yield f"failed, and the reason is {reason!r}"
    # The step whose loss was not finite was not completed; memory is said to run out *after* a completed step.
    for pattern, expected_step in ((_NOT_FINITE, manifest.completed_steps + 1),
                                   (_OUT_OF_MEMORY, manifest.completed_steps)):
        match = pattern.match(reason)
        if match and int(match[1]) != expected_step:
            yield f"{reason[:60]!r}, and {manifest.completed_steps} steps were completed"


@check("consistency.time_and_memory")
def time_and_memory(unit: Unit) -> Found:
    """Clocks in order, steps not longer than the run; peak of limit and log."""
    manifest = unit.manifest
    start, end = moment(manifest.started_at), moment(manifest.finished_at)
    if end < start:
        yield "finished before it started"
    seconds = sum(step.seconds for step in unit.steps)
    # A second of slack, because steps are timed by another clock.
    if seconds > (end - start).total_seconds() + 1:
        yield f"{seconds:.1f} s of steps in {(end - start).total_seconds():.1f} s"
    moments = [moment(str(row.get("time"))) for row in unit.events]
    yield from (f"event {number + 1} is earlier than event {number}"
                for number, (earlier, later) in enumerate(pairwise(moments), start=1) if later < earlier - CLOCK_SLACK)
    yield from _memory_problems(unit)
    if unit.written_by_train:
        yield from _date_problems(unit, start, end, moments)
    return f"{seconds:.1f} s of steps, {manifest.started_at} to {manifest.finished_at}"


def _date_problems(unit: Unit, start: datetime, end: datetime, events: list[datetime]) -> Iterator[str]:
    """Problems of dates: none before the first records or in the future; events are within the run."""
    for name, when in (("started_at", start), ("finished_at", end)):
        if when < FIRST_RECORDS:
            yield f"{name} is {when.date()}, before records of this form were made"
        if when > datetime.now(UTC) + CLOCK_DIFFERENCE:
            yield f"{name} is {when.date()}, and that is still to come"
    if events[-1] > end + CLOCK_SLACK:
        yield f"the last event is of {events[-1]}, the run ended at {end}"


def _memory_problems(unit: Unit) -> Iterator[str]:
    """Problems of the measured peak: within the device's memory, not below the log, which never falls."""
    peak = unit.json_object(layout.MEASURED).get("measured_peak_bytes") if unit.has(layout.MEASURED) else None
    limit = unit.json_object(layout.PLAN).get("limit_bytes") if unit.has(layout.PLAN) else None
    if isinstance(peak, int) and isinstance(limit, int) and 0 < limit < peak:
        yield f"peak of {peak:,} bytes on a device with {limit:,}"
    # A resumed run has the peak of its last process, and lines of the earlier ones.
    if unit.manifest.resumes:
        return
    logged = [step.memory_bytes for step in unit.steps if isinstance(step.memory_bytes, int)]
    if unit.written_by_train and logged != sorted(logged):
        yield "the peak of the log falls"
    if isinstance(peak, int) and logged and peak < max(logged):
        yield f"a measured peak of {peak:,} bytes, {max(logged):,} in the log"


@check("consistency.made_from", "units", when=lambda unit: not unit.is_run)
def made_from(unit: Unit) -> Found:
    """The seal's origin is the root digest of the run around it; settings that repeat it agree."""
    origin = unit.seal["made_from"]
    if unit.kind in layout.EVALUATION_UNITS:
        if unit.parent is not None and origin != unit.parent.root:
            yield f"made from {_origin_text(origin)}, it is in a run with root {unit.parent.root[:16]}…"
        in_settings = unit.json_object(layout.EVALUATION_CONFIG).get("made_from", origin)
        if _origin_text(in_settings) != _origin_text(origin):
            yield f"{layout.EVALUATION_CONFIG} names another origin than the seal"
    if unit.parent is None and not is_absent(origin) and origin not in unit.record.by_root:
        yield not_checked(f"made from {_origin_text(origin)}, which is not here", blocking=False)
    return f"made from {_origin_text(origin)}"


@check("consistency.made_from", "evaluations")
def evaluated_model(unit: Unit) -> Found:
    """What the evaluation's settings say of the model against the manifest of the run."""
    run, settings = unit.parent, unit.json_object(layout.EVALUATION_CONFIG)
    if run is None:
        return None
    expected = {"tokenizer.digest": run.manifest.data_digests.get("tokenizer"), "engine.name": run.manifest.engine}
    present = {key for key, value in settings.items() if not is_absent(value)}
    known = {name: value for name, value in expected.items() if value is not None and name.partition(".")[0] in present}
    yield from contradictions(layout.EVALUATION_CONFIG, settings, known, "the run's is")
    kind = field_of(settings, "source.kind")
    if "source" in settings and kind not in ANSWERED_HERE:
        yield f"completions are {str(kind)[:40]!r}, not generated by the run"
    return f"engine {run.manifest.engine!r} and the run's tokenizer"


def _origin_text(origin: Any) -> str:
    return "no other unit" if is_absent(origin) else str(origin)[:16] + "…"


@check("consistency.tokenizer")
def tokenizer(unit: Unit) -> Found:
    """The digest of its files, recomputed without a library, because they are untrusted."""
    manifest_digest = unit.manifest.data_digests.get("tokenizer")
    name, settings = f"{layout.TOKENIZER}/tokenizer.json", f"{layout.TOKENIZER}/tokenizer_config.json"
    if manifest_digest is None or not unit.has(name):
        return not_checked(f"no {name} or no digest of it", blocking=False)
    # Over the parsed content, as when it was recorded: spacing and order of keys do not change a tokenizer.
    digest = tokenizer_digest(unit.json(name), unit.json_object(settings) if unit.has(settings) else {})
    if digest != manifest_digest:
        yield f"{layout.TOKENIZER} has digest {digest[:16]}…, the manifest {manifest_digest[:16]}…"
    return f"digest {manifest_digest[:16]}…"


@check("consistency.views", "units")
def texts(unit: Unit) -> Found:
    """README, rendered again, byte for byte; that of another version is not compared."""
    views = views_of(unit)
    if not views:
        return None
    writer = unit.manifest.workings_version if unit.is_run else str(unit.json_object(PACK).get("workings_version"))
    if writer != version(OURS):
        return not_checked(f"written by workings {writer[:20]}; `workings verify --render` prints what this version "
                           "makes of the record", blocking=False)
    yield from (f"{name} is not what the record gives: `workings verify --render {name}` prints that"
                for name, render in views.items()
                if not unit.has(name) or unit.read(name) != render().encode("utf-8"))
    return ", ".join(views)


def views_of(unit: Unit) -> dict[str, Callable[[], str]]:
    """The generated texts of a unit: functions that render them, by their file names in the unit."""
    if unit.is_run and unit.written_by_train:
        return {layout.README: lambda: run_readme(unit.manifest, unit)}
    if unit.kind == PACK_KIND and not unit.is_run:
        return {layout.README: lambda: _pack_readme(unit)}
    return {}


def _pack_readme(pack: Unit) -> str:
    contents, units = pack.json_object(PACK), pack.units_inside
    roots = {path: unit.root for path, unit in units.items()}
    runs = {path: (unit.manifest, unit.json(layout.OVERRIDES) if unit.has(layout.OVERRIDES) else {})
            for path, unit in units.items() if unit.is_run}
    return pack_readme(str(contents["workings_version"]), roots, runs, by_digest=bool(contents["by_digest"]))
