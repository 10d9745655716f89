"""Conditions under which two computations agree to the bit: engine, code, versions, processor, threads, devices.

Tolerances: how far the same steps may differ under other conditions, by number format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workings.hardware.device import DeviceFacts
from workings.record.manifest import DeviceChecks, RunManifest
from workings.record.values import Absent

NOT_RECORDED = "not recorded"
PACKAGE = "package "
"""Prefix of the conditions that are versions of packages."""
WITHOUT_EFFECT = frozenset({
    "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS", "KAGGLE_KERNEL_RUN_TYPE", "PYTHONHASHSEED",
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TF_CPP_MIN_LOG_LEVEL",
    "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"})
"""Recorded variables that change memory, speed or the choice of a device, and never a result."""


def conditions(environment: Mapping[str, Any], *, engine: str, distribution: str, version: str, commit: str,
               changes: str, device: DeviceFacts | DeviceChecks, packages: Sequence[str]) -> dict[str, str]:
    """The conditions of one computation, each as a text; equal texts mean equal conditions.

    ``environment``: result of `workings.record.environment.collect()`, recorded or current; ``distribution``: the
    package that brings the engine, in this ``version``; ``changes``: digest of uncommitted changes, or why there is
    none; ``packages``: names of those that compute.
    """
    machine, variables, versions = (environment.get(key, {}) for key in ("machine", "variables", "packages"))
    return {
        "engine": f"{engine} of {distribution} {version}", "code": f"{commit}; changes: {changes}",
        "device": f"{device.count} x {device.kind} ({device.platform})",
        "mesh": " ".join(f"{axis}={size}" for axis, size in sorted(device.mesh.items())),
        # Compilers and kernels choose instructions by the processor, and these may round differently.
        **{name: str(machine.get(name, NOT_RECORDED)) for name in ("cpu_model", "architecture", "usable_cores")},
        # How many threads share a sum decides in which parts it is added up, and so how it is rounded.
        "threads": _pairs(machine.get("threads", {})),
        "variables": _pairs({name: value for name, value in variables.items() if name not in WITHOUT_EFFECT}),
        **{PACKAGE + name: str(versions.get(name, NOT_RECORDED)) for name in sorted(packages)}}


def conditions_of_run(manifest: RunManifest, environment: Mapping[str, Any], packages: Sequence[str]) -> dict[str, str]:
    """The conditions that a run recorded."""
    source = manifest.engine_distribution
    return conditions(environment, engine=manifest.engine, distribution=source.name, version=source.version,
                      commit=_text(manifest.commit_sha), changes=_text(manifest.dirty_diff_digest),
                      device=manifest.device, packages=packages)


def differing_conditions(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Names of the conditions that differ, or that are not known."""
    before = {name: recorded.get(name, NOT_RECORDED) for name in sorted(recorded.keys() | current.keys())}
    return [name for name, text in before.items() if text == NOT_RECORDED or text != current.get(name, NOT_RECORDED)]


def platform(conditions: Mapping[str, str]) -> str:
    """Platform of the devices, `cpu`, `gpu` or `tpu`: `gpu` if the device is `2 x NVIDIA H200 (gpu)`."""
    return conditions.get("device", "").rpartition("(")[2].rstrip(")")


def _pairs(values: Any) -> str:
    if not isinstance(values, Mapping):
        return NOT_RECORDED
    return " ".join(f"{name}={value}" for name, value in sorted(values.items())) or "none set"


def _text(value: str | Absent) -> str:
    return value.absent if isinstance(value, Absent) else value


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest relative differences that count as the same computation under other conditions."""

    loss: float
    grad_norm: float
    weights: float
    """Largest of any tensor: Euclidean norm of the difference over the tensor's norm."""
    completions: float
    """Smallest share of greedy completions that are the same text."""
    source: str

    def to_json(self) -> dict[str, Any]:
        """For the answer."""
        return asdict(self)


BITWISE = Tolerance(loss=0.0, grad_norm=0.0, weights=0.0, completions=1.0,
                    source="none: processor, threads and versions are the recorded ones")
_MEASURED = "python -m proof.replay"
TOLERANCES = {
    "float32": Tolerance(loss=1e-5, grad_norm=1e-5, weights=1e-5, completions=0.9, source=_MEASURED),
    "bfloat16": Tolerance(loss=7e-4, grad_norm=2e-3, weights=3e-3, completions=0.7, source=_MEASURED),
    "bfloat16 weights": Tolerance(loss=3e-3, grad_norm=2e-2, weights=3e-2, completions=0.6, source=_MEASURED),
}
"""Tolerances by number format: above the differences of correct replays of ten steps under other conditions, below
those of controls. Measured on CPUs, with models of 0.2 million parameters. There is none for other formats, or between
a CPU and an accelerator: a replay under such conditions is refused."""
MEASURED_STEPS = 10
"""Steps over which the tolerances were measured: differences grow from step to step."""
_LONG_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def number_format(dtypes: Mapping[str, str]) -> str:
    """Key of `TOLERANCES` for a manifest's `actual_dtypes`: the computation's format, or `bfloat16 weights`."""
    stored, computed = (_LONG_NAMES.get(dtypes.get(key, ""), dtypes.get(key, "")) for key in ("parameters", "compute"))
    # Weights that are stored in bfloat16 as well are rounded at every update.
    return f"{computed} weights" if stored == computed == "bfloat16" else computed


def tolerance_for(dtypes: Mapping[str, str], recorded: Mapping[str, str],
                  current: Mapping[str, str]) -> Tolerance | None:
    """The tolerance for a run's number formats between two conditions; None if not measured."""
    return TOLERANCES.get(number_format(dtypes)) if platform(recorded) == platform(current) else None
