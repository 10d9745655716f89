"""Level 1: the tokenizer is that of its digest; plan, environment and device checks agree about the machine."""

import hashlib
import json
import re
from collections.abc import Iterator
from math import prod
from typing import Any

from workings.evidence.verify.checks.machine_facts import doctor_problems, host_problems
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    every_run,
    finding_from,
    not_checked,
    only_if_written_by_train,
    same_json,
)
from workings.evidence.verify.result import CheckFinding
from workings.hardware.memory import PROCESS_PEAK
from workings.record.layout import ENVIRONMENT, MEASURED, PLAN, TOKENIZER

SPECIAL = ("bos_token", "eos_token", "pad_token")
_FORCED_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\d{1,9})\b")
"""How JAX is told to show one processor as several devices; the last of several counts."""


@check("consistency.tokenizer", level=1, title="the tokenizer's files are those of the digest", units=every_run,
       example="another tokenizer under the old digest")
def tokenizer(unit: Unit) -> Iterator[CheckFinding]:
    """`Tokenizer.digest`, made again from the files alone: no library reads what a stranger wrote."""
    manifest_digest, name = unit.manifest.data_digests.get("tokenizer"), f"{TOKENIZER}/tokenizer.json"
    if manifest_digest is None or not unit.has(name):
        yield not_checked(f"no {name} or no digest of it", unit, blocking=False)
        return
    # Over the parsed content, as when it was recorded: spacing and order of keys do not change a tokenizer.
    digest = tokenizer_digest(unit.json(name), _object(unit, f"{TOKENIZER}/tokenizer_config.json"))
    problems = [] if digest == manifest_digest else [
        f"{TOKENIZER} has digest {digest[:16]}…, the manifest {manifest_digest[:16]}…"]
    yield finding_from(problems, f"digest {manifest_digest[:16]}…", unit)


def tokenizer_digest(tokenizer: Any, settings: dict[str, Any]) -> str:
    """The digest that a tokenizer with these files has (`workings.models.tokenizer.Tokenizer.digest`)."""
    # Like `Tokenizer`: older files hold a token as an object, and several named templates as a list.
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    special = {name: value.get("content") if isinstance(value, dict) else value
               for name in SPECIAL if (value := settings.get(name))}
    parts = {"tokenizer": tokenizer, "special": {name: text for name, text in special.items() if isinstance(text, str)},
             "chat_template": template if isinstance(template, str) else ""}
    # The same form as where the digest is made: sorted keys, no escapes.
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@check("consistency.machine", level=1, title="packages, devices and memory are those of plan and environment",
       units=every_run, precondition=only_if_written_by_train,
       example="a larger mesh in the plan than the device checks have")
def machine(unit: Unit) -> Iterator[CheckFinding]:
    """Packages and mesh of the plan, the machine of the environment, the findings of the doctor."""
    device, environment, plan = unit.manifest.device, unit.json_object(ENVIRONMENT), _object(unit, PLAN)
    packages, variables = environment.get("packages"), environment.get("variables")
    host = section if isinstance(section := environment.get("machine"), dict) else {}
    problems = [f"{name} is {str(version)[:20]} in {PLAN}, {str(packages[name])[:20]} in {ENVIRONMENT}"
                for name, version in (plan.get("versions") or {}).items() if isinstance(packages, dict)
                and name in packages and not same_version(packages[name], version)]
    pairs = (("devices", device.count), ("mesh", dict(device.mesh)), ("recipe", unit.manifest.recipe))
    problems += [f"{PLAN} has {key} {str(plan[key])[:40]}, the run {str(expected)[:40]}"
                 for key, expected in pairs if key in plan and not same_json(plan[key], expected)]
    axes = unit.manifest.config.get("mesh")
    problems += [f"the recipe's mesh.{axis[:20]} is {str(size)[:20]}, that of the run {device.mesh.get(axis)}"
                 for axis, size in (axes if isinstance(axes, dict) else {}).items()
                 # `auto` is resolved on the machine; only a number can be compared.
                 if size != "auto" and not same_json(size, device.mesh.get(axis, 1))]
    if prod(device.mesh.values()) != device.count:
        problems.append(f"a mesh of {prod(device.mesh.values())} devices, {device.count} were used")
    problems += doctor_problems(unit)
    problems += _source_problems(unit)
    problems += _cpu_run_problems(unit, host)
    problems += host_problems(host, variables)
    problems += _forced_count_problems(unit, variables)
    yield finding_from(problems, unit.manifest.hardware, unit)


def same_version(one: Any, other: Any) -> bool:
    """Whether two versions are the same; the build behind ``+`` counts where both name one.

    Packages may be installed as 2.11.0 and call themselves 2.11.0+cu130.
    """
    if isinstance(one, str) and isinstance(other, str) and ("+" in one) != ("+" in other):
        return one.partition("+")[0] == other.partition("+")[0]
    return same_json(one, other)


def _source_problems(unit: Unit) -> list[str]:
    """Lines of the log whose memory was measured by another source than the whole run's."""
    source = _object(unit, MEASURED).get("measured_source")
    # A resumed run may have continued where memory is measured by another source.
    if unit.manifest.resumes or not isinstance(source, str):
        return []
    return [f"step {row.get('step')}: memory of {str(row.get('memory_source'))[:40]!r}, that of {MEASURED} is of "
            f"{source[:40]!r}" for row in unit.metrics if row.get("memory_source", source) != source]


def _cpu_run_problems(unit: Unit, host: dict[str, Any]) -> list[str]:
    """Problems of a run on a CPU, whose device is the machine itself."""
    device, problems, memory = unit.manifest.device, [], host.get("memory_bytes")
    if device.platform != "cpu":
        return []
    measured = _object(unit, MEASURED)
    sizes = {"limit_bytes": _object(unit, PLAN).get("limit_bytes"),
             "measured_peak_bytes": measured.get("measured_peak_bytes")}
    source = measured.get("measured_source")
    # Engines of other packages may name the processor in another way.
    if unit.manifest.engine_distribution.name == "workings":
        if host.get("cpu_model", device.kind) != device.kind:
            problems.append(f"{ENVIRONMENT} has processor {str(host['cpu_model'])[:40]!r}, the device checks "
                            f"{device.kind[:40]!r}")
        if isinstance(source, str) and source != PROCESS_PEAK:
            problems.append(f"measured_source is {source[:40]!r}, on a CPU {PROCESS_PEAK!r}")
    # The device is the machine here, so no process holds more than it has.
    return problems + [f"{name} is {size:,} on a machine with {memory:,}" for name, size in sizes.items()
                       if isinstance(size, int) and isinstance(memory, int) and size > memory]


def _forced_count_problems(unit: Unit, variables: Any) -> list[str]:
    """More devices of a processor than XLA was told to show, in each of the run's processes."""
    manifest, flags = unit.manifest, variables.get("XLA_FLAGS") if isinstance(variables, dict) else None
    counts = _FORCED_COUNT.findall(flags) if isinstance(flags, str) else []
    processes = manifest.device.processes
    ours = manifest.engine_distribution.name == "workings"
    if not counts or not ours or manifest.device.platform != "cpu":
        return []
    used, shown = manifest.device.count, int(counts[-1]) * processes
    return [f"{used} devices were used, XLA_FLAGS in {ENVIRONMENT} shows {shown}"] if used > shown else []


def _object(unit: Unit, name: str) -> dict[str, Any]:
    return unit.json_object(name) if unit.has(name) else {}
