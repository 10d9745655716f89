"""Which devices a request gets. Nothing is ever replaced by something else in silence."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import jax.extend
import numpy as np

from workings.engines.hardware_probe import accelerators, cpu_memory, cpu_name
from workings.engines.import_warnings import without_noise
from workings.errors import DeviceError, first_line
from workings.hardware.device import without_alias
from workings.hints import pip_install

PLUGINS = {"gpu": pip_install("cuda"), "tpu": pip_install("tpu")}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """Devices of one platform, and why these."""

    platform: str
    devices: tuple[jax.Device, ...]
    reason: str


def find_devices(asked: str, present: Mapping[str, str] | None = None) -> Devices:
    """Devices for ``auto|cpu|gpu|cuda|tpu``.

    ``auto`` takes the accelerator that is there and settles for the CPU only where the machine shows no accelerator.
    Raises `DeviceError` where the device asked for is absent, or hardware is present that JAX cannot use.
    """
    asked = without_alias(asked)
    present = accelerators() if present is None else present
    if asked == "cpu":
        return Devices(platform="cpu", devices=_open("cpu"), reason="asked for")
    if asked in ("gpu", "tpu"):
        try:
            return Devices(platform=asked, devices=_open(asked), reason="asked for")
        except RuntimeError as error:
            raise _absent(asked, present, error) from error
    # A card that is there and cannot be used ends the run: on the CPU instead, only the time it takes would tell.
    for platform in ("tpu", "gpu"):
        if platform in present:
            try:
                return Devices(platform=platform, devices=_open(platform),
                               reason=f"auto: {present[platform]} is there")
            except RuntimeError as error:
                raise DeviceError(
                    f"device: auto on a machine with {present[platform]}, which JAX cannot use ({first_line(error)})",
                    f"a JAX that drives this {platform.upper()}",
                    f"{PLUGINS[platform]}, or ask for the CPU in so many words: device=cpu") from error
    return Devices(platform="cpu", devices=_open("cpu"), reason="auto: this machine shows no accelerator")


def _open(platform: str) -> tuple[jax.Device, ...]:
    """All devices of a platform. Raises RuntimeError where JAX has none."""
    if platform == "cpu":
        # An installed libtpu would otherwise be started on every CPU host, which asks a metadata server for minutes.
        # Without effect once JAX has opened its backends.
        jax.config.update("jax_platforms", "cpu")
        # A step is waited for anyway; computed by the thread that asks, its memory comes from that thread's heap.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        # Even so, JAX loads the plugins of other devices to find out what they are called.
        with without_noise():
            return tuple(jax.devices(platform))
    with _plugins_that_fail() as reasons:
        try:
            if platform == "tpu":  # what libtpu prints is then the reason
                return tuple(jax.devices(platform))
            with without_noise():
                return tuple(jax.devices(platform))
        except RuntimeError as error:
            raise RuntimeError("; ".join([first_line(error), *reasons])) from error


@contextmanager
def _plugins_that_fail() -> Iterator[list[str]]:
    """Why plugins of devices could not be loaded, in place of the tracebacks that JAX logs of them."""
    reasons: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        # JAX logs the traceback of a plugin that fails and goes on without it; of each, one line is kept for the error.
        if record.exc_info and record.exc_info[1]:
            reasons.append(f"{record.getMessage()}: {first_line(record.exc_info[1])}")
        return not record.exc_info

    logger = logging.getLogger("jax._src.xla_bridge")
    logger.addFilter(keep)
    try:
        yield reasons
    finally:
        logger.removeFilter(keep)


def _absent(asked: str, present: Mapping[str, str], error: Exception) -> DeviceError:
    seen = f"{present[asked]} is there, but JAX cannot use it" if asked in present else "this machine shows none"
    others = [name for name in present if name != asked]
    return DeviceError(f"device: {asked}; {seen} ({first_line(error)})",
                       f"a machine with a {asked.upper()} that JAX can use",
                       PLUGINS[asked] if asked in present else f"device={others[0] if others else 'cpu'}")


def memory_limit(device: jax.Device) -> tuple[int, str]:
    """Bytes one device offers, and who says so."""
    stats: dict[str, Any] = device.memory_stats() or {}
    # On a GPU that is the share of the card that XLA takes, not the card's memory.
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "device (memory_stats)"
    return cpu_memory()


def device_name(device: jax.Device) -> str:
    """The device's own name; for the CPU the kernel's name of it."""
    return cpu_name() if device.platform == "cpu" else str(device.device_kind)


def coarser_products(platform: str, compute: str) -> list[str]:
    """Notes about float32 on an accelerator: by default JAX multiplies it in a format with fewer digits."""
    if platform == "cpu" or compute != "fp32" or jax.config.values["jax_default_matmul_precision"] is not None:
        return []
    coarser = {"gpu": "TF32 (10 bits after the point instead of 23)", "tpu": "bf16 (7 bits after the point)"}[platform]
    return [f"JAX makes products of float32 in {coarser} here; with JAX_DEFAULT_MATMUL_PRECISION=highest in float32, "
            "which takes longer"]


def library_versions() -> dict[str, str]:
    """Versions of what computes."""
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    backend = jax.extend.backend.get_backend()
    return versions | {"backend": " ".join(str(backend.platform_version).split())}


def check_kernels(devices: tuple[jax.Device, ...], dtype: str = "fp32") -> dict[str, Any]:
    """Multiply two matrices in a number format (``fp32``, ``bf16``) on every device and compare with NumPy.

    Raises `DeviceError` where a device fails or returns wrong numbers (wheels for the wrong architecture import well
    and die at the first kernel).
    """
    number = {"fp32": np.dtype(np.float32), "bf16": np.dtype(jax.numpy.bfloat16)}[dtype]
    left = np.linspace(-1.0, 1.0, 128 * 64, dtype=np.float32).reshape(128, 64).astype(number)
    right = np.linspace(1.0, -0.5, 64 * 32, dtype=np.float32).reshape(64, 32).astype(number)
    # From the factors as they were rounded, so that what is left is the device's own error.
    expected = left.astype(np.float64) @ right.astype(np.float64)
    # Rounding to bfloat16 moves a number by at most 2 ** -8 of its size; the limit is twice that of the largest one.
    allowed = {"fp32": 1e-3, "bf16": 2**-7 * float(np.max(np.abs(expected)))}[dtype]
    # By default a TPU multiplies float32 in bfloat16, and the limit is meant for float32.
    multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision="highest"))
    worst = 0.0
    for device in devices:
        try:
            got = np.asarray(multiply(jax.device_put(left, device), jax.device_put(right, device)))
        except RuntimeError as error:
            raise DeviceError(f"a 128 x 64 x 32 matrix product in {dtype} on {device} failed: {first_line(error)}",
                              "a device that runs kernels", "workings doctor") from error
        difference = float(np.max(np.abs(got.astype(np.float64) - expected)))
        if not difference < allowed:  # also where it is not a number
            raise DeviceError(f"a matrix product in {dtype} on {device} is off by {difference:g}",
                              f"an error below {allowed:g}", "workings doctor")
        worst = max(worst, difference)
    return {"kernel": f"matmul 128x64x32 {dtype}", "devices": [str(device) for device in devices],
            "max_difference_to_numpy": worst}
