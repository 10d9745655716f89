"""Programs that JAX compiled for this CPU, kept between runs by JAX's persistent compilation cache.

Without them the same recipe is compiled again at every start, which takes longer than all else before the first step. A
kept program is machine code: JAX finds it again for the same program, options and versions; it is in a folder of its
own for every kind of CPU, and that folder is one that no one else can write to. Of a file that cannot be read JAX says
so and compiles its program again.

Only on a CPU: what an accelerator's compiler says about memory has not been read from a kept program yet.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import jax

from workings.engines.hardware_probe import cpu_features
from workings.errors import RequestError
from workings.hardware.machine import cache_directory

MAX_BYTES = 256 << 20
"""Kept programs together; the ones that were made longest ago go first."""


def keep_programs() -> None:
    """Let JAX keep what it compiles below the cache directory, where that can be written to.

    A folder that the user gave JAX (``JAX_COMPILATION_CACHE_DIR``) stays theirs, and so does their wish to keep
    nothing (``JAX_ENABLE_COMPILATION_CACHE=0``).

    Raises:
        RequestError: when someone else could put a program there.
    """
    asked = jax.config.values
    if asked["jax_compilation_cache_dir"] is not None or not asked["jax_enable_compilation_cache"]:
        return
    # A program may use instructions that another CPU lacks, and machines may share a home on a network.
    folder = cache_directory() / "programs" / sha256(cpu_features().encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A folder that was there before keeps its mode, so owner and mode are looked at and not assumed.
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
