"""Kaggle's accelerators: what their settings are called there, and how long a session lasts."""

from dataclasses import dataclass

from workings.errors import RequestError
from workings.hardware.catalog import targets


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One setting of a notebook's accelerator."""

    target: str
    """Name of `workings plan --on`."""
    editor_name: str
    """As the notebook editor calls it."""
    machine_shape: str
    """As `kernel-metadata.json` calls it."""
    platform: str
    """`tpu` or `gpu`."""
    jax_extra: str
    """What brings JAX for it, where Kaggle's own is too old."""
    source: str

    @property
    def session_hours(self) -> float:
        """A session ends after these hours, whatever runs in it."""
        return float(targets()[self.target].kaggle_session_hours or 0)


MACHINES = {
    "v5e-8": Machine(
        target="v5e-8", editor_name="TPU v5e-8", machine_shape="TpuV5E8", platform="tpu",
        jax_extra="tpu", source="github.com/Kaggle/kaggle-cli/pull/1198: TpuV5E8 is TPU v5e-8"),
    "t4x2": Machine(
        target="t4x2", editor_name="GPU T4 x2", machine_shape="NvidiaTeslaT4", platform="gpu",
        jax_extra="cuda12", source="github.com/Kaggle/kaggle-cli/pull/1198: NvidiaTeslaT4 is GPU T4 x2"),
}


def find_machine(name: str, device: str) -> Machine:
    """The machine of a name; of an empty name, the one that suits a recipe's device. Raises `RequestError`."""
    if name in MACHINES:
        return MACHINES[name]
    platform = {"tpu": "tpu", "gpu": "gpu", "cuda": "gpu"}.get(device, "") if not name else ""
    found = next((machine for machine in MACHINES.values() if machine.platform == platform), None)
    if found is None:
        raise RequestError(f"--on {name}" if name else f"a recipe for device {device}, and no --on",
                           " or ".join(MACHINES), f"--on {next(iter(MACHINES))}")
    return found
