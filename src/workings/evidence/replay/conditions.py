"""Conditions under which two computations agree to the bit: engine, code, versions, processor, threads, devices."""

from collections.abc import Mapping, Sequence
from typing import Any

from workings.record.manifest import RunManifest
from workings.record.values import Absent

NOT_RECORDED = "not recorded"
PACKAGE = "package "
"""Prefix of the conditions that are versions of packages."""
WITHOUT_EFFECT = frozenset({
    "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS", "KAGGLE_KERNEL_RUN_TYPE", "PYTHONHASHSEED", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "TF_CPP_MIN_LOG_LEVEL", "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE"})
"""Recorded variables that change memory, speed or the choice of a device, and never a result."""


def conditions(environment: Mapping[str, Any], *, engine: str, code: str, device: str, mesh: Mapping[str, int],
               packages: Sequence[str]) -> dict[str, str]:
    """The conditions of one computation, each as a text; equal texts mean equal conditions.

    Args:
        environment: result of `workings.record.environment.collect()`, recorded or current.
        engine: name and origin of the engine.
        code: commit and uncommitted changes.
        device: platform, name and number of the devices.
        mesh: axis sizes.
        packages: names of the packages that compute.
    """
    machine = environment.get("machine", {})
    variables = environment.get("variables", {})
    versions = environment.get("packages", {})
    return {
        "engine": engine, "code": code, "device": device,
        "mesh": " ".join(f"{axis}={size}" for axis, size in sorted(mesh.items())),
        # Compilers and kernel libraries choose instructions by the processor, and other instructions may round
        # otherwise.
        **{name: str(machine.get(name, NOT_RECORDED)) for name in ("cpu_model", "architecture", "usable_cores")},
        # How many threads share a sum decides in which parts it is added up, and so how it is rounded.
        "threads": _pairs(machine.get("threads", {})),
        "variables": _pairs({name: value for name, value in variables.items() if name not in WITHOUT_EFFECT}),
        **{PACKAGE + name: str(versions.get(name, NOT_RECORDED)) for name in sorted(packages)},
    }


def conditions_of_run(manifest: RunManifest, environment: Mapping[str, Any], packages: Sequence[str]) -> dict[str, str]:
    """The conditions that a run recorded."""
    device = manifest.device
    source = manifest.engine_distribution
    return conditions(
        environment, engine=engine_text(manifest.engine, source.name, source.version),
        code=code_text(_text(manifest.commit_sha), _text(manifest.dirty_diff_digest)),
        device=device_text(device.platform, device.kind, device.count), mesh=manifest.device.mesh, packages=packages)


def engine_text(name: str, distribution: str, version: str) -> str:
    """An engine and where it comes from."""
    return f"{name} of {distribution} {version}"


def code_text(commit: str, dirty: str) -> str:
    """Commit and digest of uncommitted changes, or why it is missing."""
    return f"{commit}; changes: {dirty}"


def device_text(platform: str, kind: str, count: int) -> str:
    """Number, kind and platform of the devices."""
    return f"{count} x {kind} ({platform})"


def differing_conditions(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Names of the conditions that differ, or that are not known."""
    # A condition that neither side knows counts as different.
    return [name for name in sorted(recorded.keys() | current.keys())
            if recorded.get(name, NOT_RECORDED) != current.get(name, NOT_RECORDED)
            or recorded.get(name, NOT_RECORDED) == NOT_RECORDED]


def on_cpu(conditions: Mapping[str, str]) -> bool:
    """Whether the steps were computed by a CPU: on accelerators the order of sums is not fixed."""
    return platform(conditions) == "cpu"


def platform(conditions: Mapping[str, str]) -> str:
    """Platform of the devices: `cpu`, `gpu` or `tpu`."""
    return conditions.get("device", "").rpartition("(")[2].rstrip(")")


def _pairs(values: Any) -> str:
    if not isinstance(values, Mapping):
        return NOT_RECORDED
    return " ".join(f"{name}={value}" for name, value in sorted(values.items())) or "none set"


def _text(value: str | Absent) -> str:
    return value.absent if isinstance(value, Absent) else value
