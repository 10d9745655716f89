"""Which devices a request gets, and the programs that are kept for a CPU. Nothing is ever replaced silently."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import jax.extend
import numpy as np

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
    """Devices of one platform, and why these."""

    platform: str
    devices: tuple[jax.Device, ...]
    reason: str


def find_devices(asked: str, present: Mapping[str, str] | None = None) -> Devices:
    """Devices for ``auto|cpu|gpu|tpu``.

    ``auto`` takes the accelerator that is there and settles for the CPU only where the machine shows no accelerator.
    Raises `DeviceError` where the device asked for is absent, or hardware is present that JAX cannot use.
    """
    present = accelerators() if present is None else present
    platform = next((each for each in ("tpu", "gpu") if each in present), "cpu") if asked == "auto" else asked
    reason = ("asked for" if asked != "auto" else f"auto: {present[platform]} is there" if platform in present
              else "auto: this machine shows no accelerator")
    try:
        return Devices(platform=platform, devices=_open(platform), reason=reason)
    except RuntimeError as error:
        if platform not in present:
            raise DeviceError(f"this machine shows no {platform.upper()}",
                              f"a machine with a {platform.upper()} that JAX can use",
                              f"device={next(iter(present), 'cpu')}") from error
        # A card that is there and cannot be used ends the run: on the CPU instead, only the time it takes would tell.
        raise DeviceError(f"JAX cannot use {present[platform]} of this machine ({first_line(error)})",
                          f"a JAX that drives this {platform.upper()}",
                          f"{PLUGINS[platform]}, or ask for the CPU explicitly: device=cpu") from error


def _open(platform: str) -> tuple[jax.Device, ...]:
    """All devices of a platform. Raises RuntimeError where JAX has none."""
    if platform == "cpu":
        # An installed libtpu would otherwise be started on every CPU host, which asks a metadata server for minutes.
        jax.config.update("jax_platforms", "cpu")
        # A step is waited for anyway; computed by the thread that asks, its memory comes from that thread's heap.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    # JAX loads the plugins of other devices, too, to find out what they are called. What libtpu prints is its reason.
    with _plugins_that_fail() as reasons, nullcontext() if platform == "tpu" else without_noise():
        try:
            return tuple(jax.devices(platform))
        except RuntimeError as error:
            raise RuntimeError("; ".join([first_line(error), *reasons])) from error


@contextmanager
def _plugins_that_fail() -> Iterator[list[str]]:
    """A line about each plugin that could not be loaded, in place of the traceback that JAX logs of it."""
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
    """Bytes one device offers, and who says so."""
    stats: dict[str, Any] = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "device (memory_stats)"
    return cpu_memory()


def coarser_products(platform: str, compute: str) -> list[str]:
    """A note about float32 on an accelerator: by default JAX multiplies it in a format with fewer digits."""
    if platform == "cpu" or compute != "fp32" or jax.config.values["jax_default_matmul_precision"] is not None:
        return []
    coarser = {"gpu": "TF32 (10 bits after the point instead of 23)", "tpu": "bf16 (7 bits after the point)"}[platform]
    return [f"JAX makes products of float32 in {coarser} here; with JAX_DEFAULT_MATMUL_PRECISION=highest in float32, "
            "which takes longer"]


def versions() -> dict[str, str]:
    """Versions of what computes."""
    backend = jax.extend.backend.get_backend()
    return library_versions(("jax", "jaxlib", "numpy")) | {"backend": " ".join(str(backend.platform_version).split())}


def check_kernels(devices: tuple[jax.Device, ...], dtype: str = "fp32") -> dict[str, Any]:
    """`check_products` on every device."""
    # By default a TPU multiplies float32 in bfloat16, and the check is meant for float32.
    multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision="highest"))
    return check_products(devices, dtype, lambda left, right, device: np.asarray(
        multiply(jax.device_put(left, device), jax.device_put(right, device))))


MAX_BYTES = 256 << 20
"""Kept programs together; the ones that were made longest ago go first."""


def keep_programs() -> None:
    """Let JAX keep what it compiles for this CPU below the cache directory, where that can be written to.

    Without that the same recipe is compiled again at every start, which takes longer than all else before the first
    step. Only on a CPU: what an accelerator's compiler says about memory has not been read from a kept program yet.
    A user's own folder (``JAX_COMPILATION_CACHE_DIR``) or wish to keep nothing stays.

    Raises:
        RequestError: when someone else could put a program there.
    """
    asked = jax.config.values
    if asked["jax_compilation_cache_dir"] is not None or not asked["jax_enable_compilation_cache"]:
        return
    # A program may use instructions that another CPU lacks, and machines may share a home.
    folder = cache_directory() / "programs" / sha256(cpu_features().encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError:  # the folder cannot be made, or a full disk: every run compiles
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
    # JAX's own limit is not used: a process that is killed between its two files stops JAX's evictions.
    left = MAX_BYTES
    with suppress(FileNotFoundError):  # another run drops them at the same time
        for file in sorted(folder.glob("*-cache"), key=lambda file: file.stat().st_mtime, reverse=True):
            left -= file.stat().st_size
            if left < 0:
                file.unlink()
