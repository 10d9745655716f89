"""Level 1: tokenizer, packages, memory and device are the same in every file that names them."""

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
from workings.record.layout import DEVICE_CHECKS, ENVIRONMENT, MEASURED, PLAN, TOKENIZER

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


@check("consistency.machine", level=1, title="packages, memory and devices are the same in every file that names them",
       units=every_run, precondition=only_if_written_by_train,
       example="a larger device in the plan than in the manifest")
def machine(unit: Unit) -> Iterator[CheckFinding]:
    """Environment, plan and measurement against the manifest."""
    manifest, environment = unit.manifest, _object(unit, ENVIRONMENT)
    plan, measured = _object(unit, PLAN), _object(unit, MEASURED)
    packages, variables = environment.get("packages"), environment.get("variables")
    host = section if isinstance(section := environment.get("machine"), dict) else {}
    device, limit = manifest.actual_device, manifest.memory_limit_bytes
    versions = [*(plan.get("versions") or {}).items(), ("workings", manifest.workings_version)]
    problems = [f"{name} is {str(version)[:20]} in plan or manifest, {str(packages[name])[:20]} in {ENVIRONMENT}"
                for name, version in versions if isinstance(packages, dict)
                and name in packages and not same_version(packages[name], version)]
    pairs = [(PLAN, "limit_bytes", limit), (MEASURED, "limit_bytes", limit), (PLAN, "devices", device.count),
             (PLAN, "mesh", dict(manifest.mesh)), (MEASURED, "measured_source", manifest.measured_peak_source),
             (PLAN, "recipe", manifest.recipe)]
    problems += [f"{name} has {key} {str(file[key])[:40]}, the manifest {str(expected)[:40]}"
                 for name, key, expected in pairs if key in (file := plan if name == PLAN else measured)
                 and not same_json(file[key], expected)]
    axes = manifest.config_snapshot.get("mesh")
    problems += [f"the recipe's mesh.{axis[:20]} is {str(size)[:20]}, the manifest's {manifest.mesh.get(axis)}"
                 for axis, size in (axes if isinstance(axes, dict) else {}).items()
                 # `auto` is resolved on the machine; only a number can be compared.
                 if size != "auto" and not same_json(size, manifest.mesh.get(axis, 1))]
    checked_mesh = _object(unit, DEVICE_CHECKS).get("mesh", dict(manifest.mesh))
    if not same_json(checked_mesh, dict(manifest.mesh)):
        problems.append(f"{DEVICE_CHECKS} has mesh {str(checked_mesh)[:40]}, the manifest {dict(manifest.mesh)}")
    if prod(manifest.mesh.values()) != device.count:
        problems.append(f"a mesh of {prod(manifest.mesh.values())} devices, {device.count} were used")
    if manifest.hardware != f"{device.count} x {device.kind}":
        problems.append(f"hardware is {manifest.hardware[:40]!r}, the device {device.count} x {device.kind[:40]}")
    if isinstance(manifest.vram, int) and manifest.vram != limit:
        problems.append(f"vram is {manifest.vram}, memory_limit_bytes {limit}")
    problems += doctor_problems(unit)
    problems += _cpu_run_problems(unit, host)
    problems += host_problems(host, variables)
    problems += _forced_count_problems(unit, variables)
    yield finding_from(problems, f"{manifest.hardware}, {limit:,} bytes", unit)


def same_version(one: Any, other: Any) -> bool:
    """Whether two versions are the same; the build behind ``+`` counts where both name one.

    Packages may be installed as 2.11.0 and call themselves 2.11.0+cu130.
    """
    if isinstance(one, str) and isinstance(other, str) and ("+" in one) != ("+" in other):
        return one.partition("+")[0] == other.partition("+")[0]
    return same_json(one, other)


def _cpu_run_problems(unit: Unit, host: dict[str, Any]) -> list[str]:
    """Problems of a run on a CPU, whose device is the machine itself."""
    manifest, problems = unit.manifest, []
    peak, memory = manifest.measured_peak_bytes, host.get("memory_bytes")
    if manifest.actual_device.platform != "cpu":
        return []
    # Engines of other packages may name the processor in another way.
    our_engine = manifest.engine_distribution.name == "workings"
    if our_engine and host.get("cpu_model", manifest.actual_device.kind) != manifest.actual_device.kind:
        problems.append(f"{ENVIRONMENT} has processor {str(host['cpu_model'])[:40]!r}, the manifest "
                        f"{manifest.actual_device.kind[:40]!r}")
    if our_engine and isinstance(manifest.measured_peak_source, str) and manifest.measured_peak_source != PROCESS_PEAK:
        problems.append(f"measured_peak_source is {manifest.measured_peak_source[:40]!r}, on a CPU {PROCESS_PEAK!r}")
    for name, size in (("memory_limit_bytes", manifest.memory_limit_bytes), ("measured_peak_bytes", peak)):
        # The device is the machine here, so no process holds more than it has.
        if isinstance(size, int) and isinstance(memory, int) and size > memory:
            problems.append(f"{name} is {size:,} on a machine with {memory:,}")
    rows = unit.metrics
    # A resumed run may have continued where memory is measured by another source.
    if not manifest.resumes:
        problems += [f"step {row.get('step')}: memory of {str(row.get('memory_source'))[:40]!r}, the manifest's is of "
                     f"{str(manifest.measured_peak_source)[:40]!r}" for row in rows
                     if isinstance(manifest.measured_peak_source, str) and "memory_source" in row
                     and row["memory_source"] != manifest.measured_peak_source]
    return problems


def _forced_count_problems(unit: Unit, variables: Any) -> list[str]:
    """More devices of a processor than XLA was told to show, in each of the run's processes."""
    manifest, flags = unit.manifest, variables.get("XLA_FLAGS") if isinstance(variables, dict) else None
    counts = _FORCED_COUNT.findall(flags) if isinstance(flags, str) else []
    processes = manifest.facts.get("processes", 1)
    ours = manifest.engine_distribution.name == "workings"
    if not counts or not ours or manifest.actual_device.platform != "cpu" or type(processes) is not int:
        return []
    used, shown = manifest.actual_device.count, int(counts[-1]) * processes
    return [f"{used} devices were used, XLA_FLAGS in {ENVIRONMENT} shows {shown}"] if used > shown else []


def _object(unit: Unit, name: str) -> dict[str, Any]:
    return unit.json_object(name) if unit.has(name) else {}
