"""Finds the devices of a request, and keeps compiled programs for a CPU.

`auto` takes an accelerator if the machine has one; an accelerator that JAX cannot use is an error.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import jax.extend
import numpy as np
from jax.experimental import multihost_utils

from workings.engines.hardware_probe import accelerators, cpu_features, cpu_memory
from workings.engines.import_warnings import without_noise
from workings.engines.kernel_check import check_products
from workings.engines.source_digest import library_versions
from workings.errors import DeviceError, RequestError, first_line
from workings.hardware.machine import cache_directory
from workings.hints import pip_install

PLUGINS = {"gpu": pip_install("cuda"), "tpu": pip_install("tpu")}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """All devices of one platform, and why it was chosen."""

    platform: str
    devices: tuple[jax.Device, ...]
    reason: str


def find_devices(asked: str, present: Mapping[str, str] | None = None) -> Devices:
    """Devices for ``auto``, ``cpu``, ``gpu`` or ``tpu``. Raises `DeviceError` if JAX cannot use such devices here."""
    present = accelerators() if present is None else present
    accelerator = next((each for each in ("tpu", "gpu") if each in present), None)
    if asked != "auto":
        platform, reason = asked, "asked for"
    elif accelerator is not None:
        platform, reason = accelerator, f"auto: {present[accelerator]} is there"
    else:
        platform, reason = "cpu", "auto: this machine shows no accelerator"
    try:
        return Devices(platform=platform, devices=_open(platform), reason=reason)
    except RuntimeError as error:
        if platform not in present:
            raise DeviceError(f"this machine shows no {platform.upper()}",
                              f"a machine with a {platform.upper()} that JAX can use",
                              f"device={next(iter(present), 'cpu')}") from error
        raise DeviceError(f"JAX cannot use {present[platform]} of this machine ({first_line(error)})",
                          f"a JAX that drives this {platform.upper()}",
                          f"{PLUGINS[platform]}, or ask for the CPU explicitly: device=cpu") from error


def _open(platform: str) -> tuple[jax.Device, ...]:
    """All devices of a platform. Raises RuntimeError if JAX has none."""
    if platform == "cpu":
        # Otherwise JAX starts an installed libtpu, which asks a metadata server for minutes.
        jax.config.update("jax_platforms", "cpu")
        # The main thread waits for every step, so it may compute it: the step's memory then comes from its own heap.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    # JAX loads the plugins of all platforms. What libtpu prints is wanted if a TPU was asked for.
    with _plugins_that_fail() as reasons, nullcontext() if platform == "tpu" else without_noise():
        try:
            return tuple(jax.devices(platform))
        except RuntimeError as error:
            raise RuntimeError("; ".join([first_line(error), *reasons])) from error


@contextmanager
def _plugins_that_fail() -> Iterator[list[str]]:
    """Collects a line about each plugin that cannot be loaded, and hides the traceback that JAX logs."""
    reasons: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            reasons.append(f"{record.getMessage()}: {first_line(record.exc_info[1])}")
        return not record.exc_info

    logger = logging.getLogger("jax._src.xla_bridge")
    logger.addFilter(keep)
    try:
        yield reasons
    finally:
        logger.removeFilter(keep)


def memory_limit(device: jax.Device) -> tuple[int, str]:
    """Bytes of one device that a run may use, and the source of the number."""
    stats: dict[str, Any] = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "device (memory_stats)"
    return cpu_memory()


def smallest_memory(own: Sequence[jax.Device]) -> int:
    """Bytes that a run may use of the smallest device of all processes; ``own``: devices of this process."""
    limit = min(memory_limit(device)[0] for device in own)
    # Devices that a CPU simulates share its memory.
    mebibytes = np.int32((limit // len(own) if own[0].platform == "cpu" else limit) >> 20)
    return int(multihost_utils.process_allgather(mebibytes).min()) << 20


def coarser_products(platform: str, compute: str) -> list[str]:
    """A note that JAX by default multiplies float32 with fewer digits on this accelerator; empty if it does not."""
    if platform == "cpu" or compute != "fp32" or jax.config.values["jax_default_matmul_precision"] is not None:
        return []
    coarser = {"gpu": "TF32 (10 bits after the point instead of 23)", "tpu": "bf16 (7 bits after the point)"}[platform]
    return [f"JAX makes products of float32 in {coarser} here; with JAX_DEFAULT_MATMUL_PRECISION=highest in float32, "
            "which takes longer"]


def versions() -> dict[str, str]:
    """Versions of the libraries and of the backend."""
    backend = jax.extend.backend.get_backend()
    return library_versions(("jax", "jaxlib", "numpy")) | {"backend": " ".join(str(backend.platform_version).split())}


def check_kernels(devices: tuple[jax.Device, ...], dtype: str = "fp32") -> dict[str, Any]:
    """`check_products` on every device."""
    # By default a TPU multiplies float32 in bfloat16.
    multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision="highest"))
    return check_products(devices, dtype, lambda left, right, device: np.asarray(
        multiply(jax.device_put(left, device), jax.device_put(right, device))))


MAX_BYTES = 256 << 20
"""Largest size of all kept programs together; the oldest ones are dropped first."""


def keep_programs() -> None:
    """Let JAX keep the programs that it compiles for this CPU in ``CACHE/programs``, so that later runs start sooner.

    Does nothing if the user has chosen another folder (``JAX_COMPILATION_CACHE_DIR``) or to keep nothing, or if the
    folder cannot be made. Raises `RequestError` if other users could put a program there.
    """
    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] is not None or not settings["jax_enable_compilation_cache"]:
        return
    # One folder for each kind of CPU: machines may share a home, and another CPU may lack some instructions.
    folder = cache_directory() / "programs" / sha256(cpu_features().encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError:
        return
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise RequestError(f"other users can write to {folder}, the cache of compiled programs",
                           "a private folder that no one else can write to",
                           f"chmod 700 {folder}, or WORKINGS_CACHE=<another folder>")
    _drop_oldest(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # By default JAX keeps only programs that took a second to compile; most of a small model's take less.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _drop_oldest(folder: Path) -> None:
    # JAX's own limit stops working when a process is killed between writing the two files of a program.
    left = MAX_BYTES
    with suppress(FileNotFoundError):  # another run may drop them at the same time
        for file in sorted(folder.glob("*-cache"), key=lambda file: file.stat().st_mtime, reverse=True):
            left -= file.stat().st_size
            if left < 0:
                file.unlink()
