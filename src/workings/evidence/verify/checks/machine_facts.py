"""What the machine said of itself: findings of the doctor, its load during the training, and memory of the process."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from workings.evidence.verify.record import Unit
from workings.hardware.memory import PROCESS_PEAK
from workings.record.layout import DOCTOR, ENVIRONMENT, MACHINE, MEASURED
from workings.record.values import CLOCK_SLACK, moment

JUDGEMENTS = ("fine", "note", "problem", "not checked")
NO_ACCELERATOR = "no accelerator: runs take the CPU"
HARDWARE = "hardware"
"""Id of the finding about accelerators."""
RESIDENT_SLACK = 0.1
"""Share by which what a process holds and its highest peak may differ: the kernel counts them apart, and of many
processors late."""
MAX_PERCENT = 150
"""Largest share of the processors' time that a line may have: the kernel's counter of waiting sometimes goes back, and
the share is then above 100."""
MOMENT_SLACK = 1.0
"""Seconds by which a line may be written before or after the step that it names."""


def doctor_problems(unit: Unit) -> list[str]:
    """Number of problems against the findings, and the finding about accelerators against the run's device."""
    if not unit.has(DOCTOR):
        return []
    doctor = unit.json_object(DOCTOR)
    findings = [finding for finding in doctor.get("findings") or () if isinstance(finding, dict)]
    problems = [f"{DOCTOR}: a finding is judged {str(finding.get('judgement'))[:20]!r}" for finding in findings
                if finding.get("judgement") not in JUDGEMENTS]
    count = sum(finding.get("judgement") == "problem" for finding in findings)
    if "problems" in doctor and (type(doctor["problems"]) is not int or doctor["problems"] != count):
        problems.append(f"{DOCTOR} counts {str(doctor['problems'])[:20]} problems, {count} of its findings are some")
    device = unit.manifest.device
    for finding in findings:
        finding_text = str(finding.get("what"))
        if finding.get("id") != HARDWARE:
            continue
        # The form in which the doctor writes them: `GPU at /dev/nvidia0`.
        accelerators = {part.split(" at ", 1)[0].lower() for part in finding_text.split(", ") if " at " in part}
        if finding_text != NO_ACCELERATOR and (not accelerators or accelerators - {"gpu", "tpu"}):
            problems.append(f"{DOCTOR} found {finding_text[:60]!r}, which is no accelerator and not none")
        # A run on a CPU is possible where an accelerator is: the recipe may ask for it.
        elif device.platform != "cpu" and device.platform not in accelerators:
            problems.append(f"{DOCTOR} found {finding_text[:60]!r}, the run took place on {device.platform}")
        elif accelerators and "shows no accelerator" in device.reason:
            problems.append(f"{DOCTOR} found {finding_text[:60]!r}, the device was chosen because there is none")
    return problems


def load_problems(unit: Unit, start: datetime, end: datetime) -> Iterator[str]:
    """Lines of the machine's load: within the run and in order, of steps that it took, of memory that the machine has.

    Args:
        unit: the run.
        start: of the first attempt.
        end: of the last one.
    """
    if not unit.has(MACHINE):
        return
    manifest, rows = unit.manifest, unit.lines(MACHINE)
    times = [moment(str(row.get("time"))) for row in rows]
    steps: list[Any] = [row.get("step") for row in rows]
    if not all(type(step) is int and 0 <= step <= manifest.planned_steps for step in steps):
        yield f"{MACHINE}: a step that the run does not have"
        return
    if any(not start - CLOCK_SLACK <= time <= end + CLOCK_SLACK for time in times):
        yield f"{MACHINE}: a time before the run began or after it ended"
    # Clocks are set back a little now and then.
    if any(after < before - CLOCK_SLACK for before, after in pairwise(times)):
        yield f"{MACHINE}: times in another order"
    shares = [row["cpu_percent"] for row in rows if "cpu_percent" in row]
    if not all(type(share) in (int, float) and 0 <= share <= MAX_PERCENT for share in shares):
        yield f"{MACHINE}: cpu_percent is a share of all processors' time, in percent"
    memory = _host_memory(unit)
    used = [row["host_memory_used_bytes"] for row in rows if "host_memory_used_bytes" in row]
    # An attempt that was killed took steps that another one took again, perhaps on another machine.
    if manifest.resumes:
        return
    # Names are `gpu.NUMBER.KIND`.
    cards = sorted({name.split(".")[1] for row in rows for name in row if name.startswith("gpu.")})
    doctor = unit.json_object(DOCTOR) if unit.has(DOCTOR) else {}
    if cards and any(isinstance(finding, dict) and finding.get("what") == NO_ACCELERATOR
                     for finding in doctor.get("findings") or ()):
        yield f"{MACHINE} has {len(cards)} cards, and {DOCTOR} found no accelerator"
    if memory and any(not isinstance(size, int | float) or size > memory for size in used):
        yield f"{MACHINE}: {max(used):,} bytes of the host's memory used, the machine has {memory:,}"
    if any(after < before for before, after in pairwise(steps)) or max(steps, default=0) > manifest.completed_steps:
        yield f"{MACHINE}: steps in another order, or more than the {manifest.completed_steps} that were completed"
        return
    yield from _seconds_problems(unit, times, steps)


def _seconds_problems(unit: Unit, times: list[datetime], steps: list[Any]) -> Iterator[str]:
    """Steps that began and ended between two lines of the machine's load took no longer than there is between them."""
    for (before, after), (first, last) in zip(pairwise(times), pairwise(steps), strict=True):
        # The step after the one that was named may have begun before the line was written.
        # `steps` counts from 0, so this begins with the second step after `first`.
        step_seconds = sum(step.seconds for step in unit.steps[first + 1:last])
        seconds_between = (after - before).total_seconds()
        if step_seconds > seconds_between + MOMENT_SLACK:
            yield (f"steps {first + 2} to {last} took {step_seconds:.1f} s, {MACHINE} has {seconds_between:.1f} s "
                   "for them")
            return


def resident_problems(unit: Unit) -> list[str]:
    """Memory in the lines of steps against what the process held before the first one: a peak never falls."""
    if not unit.has(MEASURED) or unit.manifest.resumes:
        return []
    measured = unit.json_object(MEASURED)
    # A peak counts what the process held before, so no later one can be lower.
    floor = max((size for name in ("resident_before_bytes", "peak_before_bytes")
                 if type(size := measured.get(name)) is int), default=0) * (1 - RESIDENT_SLACK)
    return [f"step {step.step}: a peak of {step.memory_bytes:,} bytes, the process held {floor:,.0f} before the first"
            for step in unit.steps if isinstance(step.memory_bytes, int) and step.memory_source == PROCESS_PEAK
            and step.memory_bytes < floor]


def host_problems(host: dict[str, Any], variables: Any) -> Iterator[str]:
    """What a process may use against what the machine has, and the variables of threads against all variables."""
    for part, whole in (("usable_cores", "logical_cores"), ("usable_memory_bytes", "memory_bytes")):
        if type(host.get(part)) is int and type(host.get(whole)) is int and host[part] > host[whole]:
            yield f"{ENVIRONMENT} has {part} {host[part]:,}, and {whole} {host[whole]:,}"
    threads = host.get("threads")
    if not isinstance(threads, dict) or not isinstance(variables, dict):
        return
    for name in sorted(threads.keys() & variables.keys()):
        if variables[name] != threads[name]:
            yield f"{ENVIRONMENT} has {name[:40]} {str(threads[name])[:20]}, and {str(variables[name])[:20]}"


def _host_memory(unit: Unit) -> int:
    """Bytes of memory of the machine; 0 where the environment does not say it."""
    machine = unit.json_object(ENVIRONMENT).get("machine") if unit.has(ENVIRONMENT) else None
    size = machine.get("memory_bytes") if isinstance(machine, dict) else None
    return size if type(size) is int else 0
