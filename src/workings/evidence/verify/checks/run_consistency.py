"""Level 1: recipe, manifest, seal, device, engine, times and evaluations of a run agree."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from workings.evidence.verify.checks.machine_facts import load_problems, resident_problems
from workings.evidence.verify.checks.run_events import announcement_problems, end_problems
from workings.evidence.verify.learning import best_of
from workings.evidence.verify.record import STARTS, Record, Unit
from workings.evidence.verify.registry import (
    check,
    every_evaluation,
    every_run,
    failed,
    finding_from,
    for_each_unit,
    is_our_engine,
    not_checked,
    passed,
    record_check,
    same_json,
)
from workings.evidence.verify.result import CheckFinding
from workings.plugins import OURS
from workings.record.digest import json_digest
from workings.record.layout import (
    DATA_DIGESTS,
    DEVICE_CHECKS,
    EVALUATION_CONFIG,
    EVALUATION_UNITS,
    MANIFEST,
    MEASURED,
    PLAN,
    SUMS,
)
from workings.record.values import CLOCK_SLACK, Absent, is_absent, moment

PLATFORMS = {"cpu": ("cpu",), "gpu": ("gpu",), "cuda": ("gpu",), "tpu": ("tpu",), "auto": ("cpu", "gpu", "tpu")}
"""Platforms that fulfil a requested device."""
# Kinds of units that are made from a finished run; each names the root that it was made from.
UNITS_OF_A_RUN = (*EVALUATION_UNITS, "report", "notes")
FIRST_RECORDS = datetime(2026, 11, 1, tzinfo=UTC)
"""No record of this form is older."""
CLOCK_DIFFERENCE = timedelta(days=1)
"""Largest difference between the clocks of two machines."""
_OF_PROCESS = re.compile(r" of process (\d{1,9})$")


@check("consistency.config", level=1, title="data, announcement and evaluation are those that the recipe names",
       units=every_run, when=lambda unit: unit.written_by_train,
       example="a recipe that names no items, over the digest of some")
def config(unit: Unit) -> Iterator[CheckFinding]:
    """Digests of evaluation data against the recipe; the event that announces the evaluation."""
    problems = [*_measured_problems(unit, unit.manifest.config), *announcement_problems(unit)]
    yield finding_from(problems, f"config digest {unit.manifest.config_digest[:16]}…", unit)


@check("consistency.status", level=1, title="manifest, seal and number of steps say the same about how it ended",
       units=every_run, example="a run that took 6 of 10 steps and is called complete")
def status(unit: Unit) -> Iterator[CheckFinding]:
    """Status and steps of manifest, seal and plan, reason of the end: complete only if every planned step was done."""
    manifest, problems = unit.manifest, []
    if unit.seal["status"] != manifest.status:
        problems.append(f"the seal says {unit.seal['status']}, the manifest {manifest.status}")
    best = best_of(unit)
    if manifest.status == "complete" and manifest.completed_steps != manifest.planned_steps and not (
            best is not None and best.ends_the_run and best.last_step == manifest.completed_steps):
        problems.append(f"complete, with {manifest.completed_steps} of {manifest.planned_steps} steps")
    if manifest.completed_steps > manifest.planned_steps:
        problems.append(f"{manifest.completed_steps} steps done, {manifest.planned_steps} planned")
    # Only the last event counts, because a run that failed once may have been resumed and completed.
    if manifest.status != "failed" and _failed_at_the_end(unit):
        problems.append(f"{manifest.status}, and the last of its events says that it failed")
    problems += end_problems(unit)
    steps = f"{manifest.completed_steps} of {manifest.planned_steps} steps"
    yield finding_from(problems, f"{manifest.status}, {steps}", unit)


@check("consistency.device", level=1, title="device asked for = used = checked", units=every_run,
       example="an NVIDIA H200 claimed for a run on a CPU")
def device(unit: Unit) -> Iterator[CheckFinding]:
    """What the recipe asked for, what the engine opened, and the names of the devices that were checked."""
    manifest = unit.manifest
    requested, used = manifest.requested_device, manifest.device
    problems = []
    if used.platform not in PLATFORMS.get(requested, ()):
        problems.append(f"{requested} was asked for, {used.platform} was used")
    checks = unit.json_object(DEVICE_CHECKS)
    if checks.get("passed") is False:
        problems.append("the device check failed")
    if manifest.engine_distribution.name == OURS:  # other engines name devices in their own way
        problems += _checked_devices(checks, used.platform, used.count)
    problems += _other_weights(unit)
    yield finding_from(problems, f"{requested} asked for, {used.count} x {used.kind} ({used.platform}) used, checked",
                       unit)


@check("consistency.engine", level=1, title="the engine is one of this project's", units=every_run,
       example="an engine of another version than the package that ran it")
def engine(unit: Unit) -> Iterator[CheckFinding]:
    """Package and version of the engine: one from elsewhere may be right; this project cannot say so, and names it."""
    manifest = unit.manifest
    source = manifest.engine_distribution
    if is_our_engine(manifest.engine) and source.name != OURS:
        # Two packages that bring one name are refused, and this one is installed.
        yield failed(f"engine {manifest.engine!r} is one of {OURS}, and is said to come from {source.name[:40]}", unit)
    elif source.name != OURS:
        yield not_checked(f"engine {manifest.engine!r} comes from {source.name} {source.version}, not from this "
                          "project: what its steps compute is that package's word", unit, blocking=False)
    elif source.version != manifest.workings_version:
        yield failed(f"engine from {OURS} {source.version}, run by {OURS} {manifest.workings_version}", unit)
    else:
        yield passed(f"engine {manifest.engine!r} of {OURS} {source.version}", unit)


@check("consistency.time_and_memory", level=1, title="times are in order, memory is plausible", units=every_run,
       example="a run that finished before it started")
def time_and_memory(unit: Unit) -> Iterator[CheckFinding]:
    """Clocks in order, steps not longer than the run, the machine load within it; peak of limit, log, process."""
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
        problems += [*load_problems(unit, start, end), *resident_problems(unit)]
    yield finding_from(problems, f"{seconds:.1f} s of steps, {manifest.started_at} to {manifest.finished_at}", unit)


@record_check("consistency.made_from", level=1, title="units of a run name the root of that run",
              example="an evaluation of another run, put into this one")
def made_from(record: Record) -> Iterator[CheckFinding]:
    """The seal's origin is the root digest of the run around it; settings that repeat it agree."""
    # An evaluation of an untrained model stands alone, and what it was made from may stand beside it.
    roots = {unit.root for unit in record.units if unit.has(SUMS)}

    def find(unit: Unit) -> Iterator[CheckFinding]:
        origin = unit.seal["made_from"]
        problems = []
        if unit.parent is not None and unit.kind in UNITS_OF_A_RUN and origin != unit.parent.root:
            problems.append(f"made from {_origin_text(origin)}, it stands in a run with root {unit.parent.root[:16]}…")
        if unit.kind in EVALUATION_UNITS:
            config = unit.json(EVALUATION_CONFIG)
            if not isinstance(config, dict) or _origin_text(config.get("made_from", origin)) != _origin_text(origin):
                problems.append(f"{EVALUATION_CONFIG} names another origin than the seal")
        if unit.parent is None and not is_absent(origin) and origin not in roots:
            yield not_checked(f"made from {_origin_text(origin)}, which is not here", unit, blocking=False)
        yield finding_from(problems, f"made from {_origin_text(origin)}", unit)
    return for_each_unit([unit for unit in record.units if not unit.is_run], find)


@check("consistency.evaluated_model", level=1, title="an evaluation asked the run it stands in", units=every_evaluation,
       example="completions that came from a file, shown as the run's own")
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
    if isinstance(settings.get("source"), dict) and settings["source"].get("kind") != "generated":
        problems.append(f"completions are {str(settings['source'].get('kind'))[:40]!r}, not generated by the run")
    yield finding_from(problems, f"engine {run.manifest.engine!r} and the run's tokenizer", unit)


def _failed_at_the_end(unit: Unit) -> bool:
    """Whether the events behind the last start say that the run failed; an earlier attempt may have."""
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


def _checked_devices(checks: dict[str, Any], platform: str, count: int) -> list[str]:
    """Problems of the checked devices (`TFRT_CPU_0`, `cuda:0`): as many as were used, and of their platform."""
    listed = checks.get("devices")
    if not isinstance(listed, list):
        return []
    problems = [] if len(listed) == count else [f"{count} devices were used, {len(listed)} were checked"]
    # Processes may name their devices alike.
    if checks.get("processes") == 1 and len(set(map(str, listed))) != len(listed):
        problems.append("a device was checked twice")
    problems += _process_problems(checks.get("processes"), [str(name) for name in listed])
    worst = checks.get("max_difference_to_numpy", 0)
    # The largest error with which an engine starts a run: in bfloat16 it depends on the product.
    if type(worst) not in (int, float) or not 0 <= worst < (1e-3 if str(checks.get("kernel")).endswith("fp32") else 1):
        problems.append(f"a kernel was off by {str(worst)[:20]}, and no run starts with that")
    marks = {"cpu": ("cpu",), "gpu": ("cuda", "gpu", "rocm"), "tpu": ("tpu",)}.get(platform, (platform,))
    return problems + [f"checked device {str(name)[:40]!r} is no {platform}" for name in listed
                       if not any(mark in str(name).lower() for mark in marks)]


def _process_problems(processes: Any, names: list[str]) -> list[str]:
    """Problems of the processes in the devices' names (`cpu:0 of process 1`): each has devices, in order."""
    if type(processes) is not int:
        return [f"{DEVICE_CHECKS} does not name the number of processes"]
    told = [int(match[1]) if (match := _OF_PROCESS.search(name)) else None for name in names]
    numbers = [part for part in told if part is not None]
    if processes == 1:
        return ["one process, and its devices are named after several"] if numbers else []
    # As a set it is not longer than the list, so a claim of a billion processes costs nothing.
    if len(numbers) != len(told) or numbers != sorted(numbers) or len(set(numbers)) != processes or (
            max(numbers, default=0) != processes - 1):
        return [f"{processes} processes, and the checked devices are of {str(told)[1:80]}"]
    return []


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


def _other_weights(unit: Unit) -> list[str]:
    """A sentence if a process did not read the weights that the manifest names; one process alone names none."""
    weights, digests = unit.json_object(DEVICE_CHECKS).get("weights"), unit.manifest.weight_digests
    of_manifest = "" if isinstance(digests, Absent) else json_digest(dict(digests))
    if weights is None or same_json(weights, [of_manifest] * unit.manifest.device.processes):
        return []
    return [f"{DEVICE_CHECKS} has other weights for a process than {MANIFEST}"]


def _origin_text(origin: Any) -> str:
    return "no other unit" if is_absent(origin) else str(origin)[:16] + "…"
