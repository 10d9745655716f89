"""Level 1: what a run says of its device, engine, mesh and memory agrees: requested, planned, checked, measured."""

import re
from collections.abc import Iterator
from math import prod
from typing import Any

from workings.evidence.verify.checks.tensors import expected_tensors
from workings.evidence.verify.record import Unit, section_of
from workings.evidence.verify.registry import Found, check, is_our_engine, not_checked, require_train, same_json
from workings.evidence.verify.result import NotChecked
from workings.hardware.memory import PROCESS_PEAK
from workings.planning.memory_formulas import PER_LAYER_TABLE
from workings.plugins import OURS
from workings.record.digest import json_digest
from workings.record.layout import DEVICE_CHECKS, ENVIRONMENT, MANIFEST, MEASURED, PLAN
from workings.record.memory_use import growth
from workings.record.values import Absent

PLATFORMS = {"cpu": ("cpu",), "gpu": ("gpu",), "cuda": ("gpu",), "tpu": ("tpu",), "auto": ("cpu", "gpu", "tpu")}
"""Platforms that fulfil a requested device."""
MARKS = {"cpu": ("cpu",), "gpu": ("cuda", "gpu", "rocm"), "tpu": ("tpu",)}
"""Parts of the names of checked devices, by platform."""
ROUNDING_BYTES = 2048
"""Largest difference between a peak and its parts: a rest below a kilobyte is left out, and shares are whole bytes."""
COMPILED = ("arguments", "outputs", "temporaries", "aliased", "sum", "compiler_peak")
"""A compiler's numbers for a program, without further entries of a breakdown, such as a teacher."""
RESIDENT_SLACK = 0.1
"""Share by which the memory of a process and its highest peak may differ: the kernel counts them separately, and with
many processors late."""
_FORCED_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\d{1,9})\b")
"""JAX's flag to show one processor as several devices; the last one counts."""
_OF_PROCESS = re.compile(r" of process (\d{1,9})$")


@check("consistency.device")
def device(unit: Unit) -> Found:
    """What the recipe asked for, what the engine opened, and the names of the devices that were checked."""
    requested, used, checks = unit.manifest.requested_device, unit.manifest.device, unit.json_object(DEVICE_CHECKS)
    if used.platform not in PLATFORMS.get(requested, ()):
        yield f"{requested} was asked for, {used.platform} was used"
    if checks.get("passed") is False:
        yield "the device check failed"
    if unit.engine_is_ours:  # other engines name devices in their own way
        yield from _checked_devices(checks, used.platform, used.count)
    weights, digests = checks.get("weights"), unit.manifest.weight_digests
    of_manifest = "" if isinstance(digests, Absent) else json_digest(dict(digests))
    if weights is not None and not same_json(weights, [of_manifest] * used.processes):
        yield f"{DEVICE_CHECKS} has other weights for a process than {MANIFEST}"
    return f"{requested} asked for, {used.count} x {used.kind} ({used.platform}) used, checked"


def _checked_devices(checks: dict[str, Any], platform: str, count: int) -> Iterator[str]:
    """Problems of the checked devices: number and platform must match the used ones."""
    if "devices" not in checks:
        return
    names, processes = [str(name) for name in checks["devices"]], checks.get("processes")
    if len(names) != count:
        yield f"{count} devices were used, {len(names)} were checked"
    if processes == 1 and len(set(names)) != len(names):
        yield "a device was checked twice"
    if not _are_of_processes(names, processes):
        yield f"{str(processes)[:20]} processes, and the checked devices are {', '.join(names)[:80]}"
    # The largest error with which an engine starts a run: in bfloat16 it depends on the product.
    largest = 1e-3 if str(checks.get("kernel")).endswith("fp32") else 1
    worst = checks.get("max_difference_to_numpy", 0)
    if type(worst) not in (int, float) or not 0 <= worst < largest:
        yield f"a kernel was off by {str(worst)[:20]}, and no run starts with that"
    marks = MARKS.get(platform, (platform,))
    yield from (f"checked device {name[:40]!r} is no {platform}" for name in names
                if not any(mark in name.lower() for mark in marks))


def _are_of_processes(names: list[str], processes: Any) -> bool:
    """Whether devices are named as this number of processes names them: `cuda:0` by one, else `cuda:0 of process 1`."""
    if type(processes) is not int or processes < 1:
        return False
    numbers = [int(match[1]) for name in names if (match := _OF_PROCESS.search(name))]
    if processes == 1:
        return not numbers
    # Without a set of all numbers up to `processes`, because a record may claim a billion.
    has_every_process = len(set(numbers)) == processes and max(numbers) == processes - 1
    return has_every_process and len(numbers) == len(names) and numbers == sorted(numbers)


@check("consistency.engine")
def engine(unit: Unit) -> Found:
    """Package and version of the engine: foreign engines cannot be checked and are named."""
    manifest, source = unit.manifest, unit.manifest.engine_distribution
    if unit.engine_is_ours:
        if source.version != manifest.workings_version:
            yield f"engine from {OURS} {source.version}, run by {OURS} {manifest.workings_version}"
        return f"engine {manifest.engine!r} of {OURS} {source.version}"
    if is_our_engine(manifest.engine):
        yield f"engine {manifest.engine!r} is one of {OURS}, but the record names {source.name[:40]} as its source"
    return not_checked(f"engine {manifest.engine!r} comes from {source.name} {source.version}, not from this project: "
                       "what its steps compute is that package's word", blocking=False)


@check("consistency.machine")
def machine(unit: Unit) -> Found:
    """Mesh and memory against recipe and environment; the plan's peak against its parts; memory that ran out."""
    require_train(unit)
    used = unit.manifest.device
    for axis, size in unit.section("mesh").items():
        # `auto` is resolved on the machine; only a number can be compared.
        if size != "auto" and not same_json(size, used.mesh.get(axis, 1)):
            yield f"the recipe's mesh.{axis[:20]} is {str(size)[:20]}, that of the run {used.mesh.get(axis)}"
    if prod(used.mesh.values()) != used.count:
        yield f"a mesh of {prod(used.mesh.values())} devices, {used.count} were used"
    plan, measured = (unit.json_object(name) if unit.has(name) else {} for name in (PLAN, MEASURED))
    yield from _host_problems(unit, plan, measured)
    yield from _measured_problems(unit, measured)
    if plan:
        yield from _plan_problems(unit, plan)
    return unit.manifest.hardware


def _host_problems(unit: Unit, plan: dict[str, Any], measured: dict[str, Any]) -> Iterator[str]:
    """The memory of a process compared with the machine's; on a CPU the device is the machine."""
    environment, used = unit.json_object(ENVIRONMENT), unit.manifest.device
    host, variables = section_of(environment, "machine"), section_of(environment, "variables")
    for part, whole in (("usable_cores", "logical_cores"), ("usable_memory_bytes", "memory_bytes")):
        if _exceeds(host.get(part), host.get(whole)):
            yield f"{ENVIRONMENT} has {part} {host[part]:,}, and {whole} {host[whole]:,}"
    for name, value in section_of(host, "threads").items():
        if variables.get(name, value) != value:
            yield f"{ENVIRONMENT} has {name[:40]} {str(value)[:20]}, and {str(variables[name])[:20]}"
    if used.platform != "cpu":
        return
    memory = host.get("memory_bytes")
    for name, values in (("limit_bytes", plan), ("measured_peak_bytes", measured)):
        if _exceeds(values.get(name), memory):
            yield f"{name} is {values[name]:,} on a machine with {memory:,}"
    if not unit.engine_is_ours:
        return
    if host.get("cpu_model", used.kind) != used.kind:
        yield f"{ENVIRONMENT} has processor {str(host['cpu_model'])[:40]!r}, {DEVICE_CHECKS} {used.kind[:40]!r}"
    if measured.get("measured_source", PROCESS_PEAK) != PROCESS_PEAK:
        yield f"measured_source is {str(measured['measured_source'])[:40]!r}, on a CPU {PROCESS_PEAK!r}"
    counts = _FORCED_COUNT.findall(str(variables.get("XLA_FLAGS")))
    if counts and used.count > int(counts[-1]) * used.processes:
        yield f"{used.count} devices were used, XLA_FLAGS in {ENVIRONMENT} shows {counts[-1]} a process"


def _exceeds(part: Any, whole: Any) -> bool:
    """Whether both are numbers of a record, and the first is larger."""
    return type(part) is int and type(whole) is int and part > whole


def _measured_problems(unit: Unit, measured: dict[str, Any]) -> Iterator[str]:
    """The measurement against the events, the log, and what the process held before its first step."""
    status, ran_out = unit.manifest.status, measured.get("out_of_memory")
    events = sum(row.get("kind") == "out_of_memory" for row in unit.events)
    # Running out of memory ends a run: status, event and measurement agree about it.
    if measured and (isinstance(ran_out, str) is not bool(events) or (events and status != "failed")):
        yield f"memory ran out by {MEASURED}: {str(ran_out)[:40]}; the run is {status} and has {events} events about it"
    # Another attempt may have run on another machine.
    if unit.manifest.resumes:
        return
    source = measured.get("measured_source")
    if source == PROCESS_PEAK:
        yield from _growth_problems(unit, measured)
    if isinstance(source, str):
        yield from (f"step {row.get('step')}: memory of {str(row.get('memory_source'))[:40]!r}, that of {MEASURED} is "
                    f"of {source[:40]!r}" for row in unit.metrics if row.get("memory_source", source) != source)


def _growth_problems(unit: Unit, measured: dict[str, Any]) -> Iterator[str]:
    """The recorded growth of the process, and the peaks in the log, against its memory before the first step."""
    peak, recorded = measured.get("measured_peak_bytes"), measured.get("growth_bytes")
    before, peak_before = measured.get("resident_before_bytes"), measured.get("peak_before_bytes")
    if not (type(peak) is int and type(before) is int and type(peak_before) is int):
        return
    expected = growth(peak, before, peak_before)
    if expected != (recorded if type(recorded) is int else None):
        yield f"{MEASURED}: a growth of {str(recorded)[:40]}, {peak} after {before} gives {expected or 'none'}"
    # A peak counts what the process held before, so no later one can be lower.
    floor = max(before, peak_before) * (1 - RESIDENT_SLACK)
    yield from (f"step {step.step}: a peak of {step.memory_bytes:,} bytes, the process held {floor:,.0f} before the "
                "first" for step in unit.steps if isinstance(step.memory_bytes, int)
                and step.memory_source == PROCESS_PEAK and step.memory_bytes < floor)


def _plan_problems(unit: Unit, plan: dict[str, Any]) -> Iterator[str]:
    """The planned peak against the peaks of all programs, its parts, and the numbers of the compiler."""
    peak, peaks = plan["peak_bytes"], section_of(plan, "peaks")
    if min(peak, plan["limit_bytes"]) < 0:
        yield f"{PLAN}: peak_bytes or limit_bytes is no number of bytes"
    if peaks and (peaks.get(str(plan.get("program"))) != peak or peak != max(peaks.values())):
        yield f"{PLAN}: peak_bytes is not the largest of peaks, that of {str(plan.get('program'))[:20]!r}"
    parts = [part for part in plan.get("parts") or () if isinstance(part, dict)]
    if parts and unit.engine_is_ours:
        yield from _part_problems(unit, plan, parts)
    yield from _breakdown_problems(plan)


def _part_problems(unit: Unit, plan: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[str]:
    """The parts against the peak; on one processor those that are exact against the recipe."""
    used, peak = unit.manifest.device, plan["peak_bytes"]
    total = sum(part["size_bytes"] for part in parts)
    # On a card that was too small, PyTorch's allocator gives memory back: the peak is then less than the parts.
    gives_back = plan.get("source") == "traced" and used.platform == "gpu"
    if peak - total > ROUNDING_BYTES or (total - peak > ROUNDING_BYTES and not gives_back):
        yield f"{PLAN}: its parts add up to {total:,}, its peak is {peak:,}"
    # Several devices share weights and moments unevenly, accelerators pad them.
    is_compiled_step = plan.get("source") == "compiled" and plan.get("program", "step") == "step"
    if used.platform != "cpu" or used.count != 1 or not is_compiled_step:
        return
    try:
        exact = expected_tensors(unit).exact_bytes(unit.manifest.parameters)
    except NotChecked:
        return  # said by `consistency.tensors`
    if any(part["name"] == PER_LAYER_TABLE for part in parts):
        exact.pop("parameters", None)  # the table is a separate part
    for part in parts:
        name, size = part["name"], part["size_bytes"]
        if part.get("certainty") == "exact" and exact.get(name, size) != size:
            yield f"{PLAN}: {name} take {size:,} bytes, by the recipe {exact[name]:,}"


def _breakdown_problems(plan: dict[str, Any]) -> Iterator[str]:
    peak, sizes = plan["peak_bytes"], section_of(plan, "breakdown")
    if not all(type(sizes.get(name)) is int for name in COMPILED):
        return  # traced or by formula: its entries are the parts
    total = sizes["arguments"] + sizes["outputs"] + sizes["temporaries"] - sizes["aliased"]
    if sizes["sum"] != total:
        yield f"{PLAN}: breakdown.sum is {sizes['sum']:,}, its parts add up to {total:,}"
    # Further entries are held while the step runs, such as a teacher.
    more = sum(size for name, size in sizes.items() if name not in (*COMPILED, "code") and type(size) is int)
    expected = max(total, sizes["compiler_peak"]) + more
    # Other programs than the step do not hold all of it.
    if plan.get("program", "step") == "step" and peak != expected:
        yield f"{PLAN}: peak_bytes is {peak:,}, its breakdown says {expected:,}"
