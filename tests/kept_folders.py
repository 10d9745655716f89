"""What tests make once and then only read or copy: sealed runs, and what traces of steps said.

Kept in `build/kept` for all workers and for the next session, below a digest of everything that it follows from: the
package's files, the modules of tests that make it, versions of libraries, the kind of processor. A changed byte of any
of them, and everything is made anew; `make clean` removes it.

Nothing that a test is about may be taken from here: a test of training trains.
"""

import contextlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from workings.engines.hardware_probe import cpu_features

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "peft", "safetensors", "tokenizers", "torch", "transformers")
KEPT_STATES = 3
"""Of the sources: of the one there is now and of the two before it."""


def folder_of_now(*settings: str) -> Path:
    """The folder for what follows from everything as it is now, and from these settings."""
    digest = sha256("\0".join((*settings, sys.version, cpu_features(), *map(_version, LIBRARIES))).encode())
    makers = (path for path in (ROOT / "tests").rglob("*") if not path.name.startswith("test_"))
    for path in sorted((*(ROOT / "src" / "workings").rglob("*"), *makers)):
        if path.suffix not in ("", ".pyc") and path.is_file():
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + sha256(path.read_bytes()).digest())
    folder = ROOT / "build" / "kept" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for old in sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_STATES]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _version(library: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(library)
    return ""


def copy(make: Callable[[Path], object], to: Path, name: str) -> Path:
    """The folder ``to`` with what ``make`` leaves in an empty folder; made once under this name, and copied."""
    if "TESTS_KEPT" not in os.environ:  # a script of `proof`
        to.mkdir(parents=True, exist_ok=True)
        make(to)
        return to
    source = Path(sys.modules[make.__module__].__file__ or "").read_bytes()  # a test's module may be what makes it
    kept = Path(os.environ["TESTS_KEPT"]) / f"{name}-{sha256(source).hexdigest()[:16]}"
    if not kept.exists():
        own = Path(tempfile.mkdtemp(dir=kept.parent, prefix="own-"))
        try:
            make(own)
            with contextlib.suppress(OSError):  # another worker has made it meanwhile
                own.rename(kept)
        finally:
            shutil.rmtree(own, ignore_errors=True)
    return shutil.copytree(kept, to, dirs_exist_ok=True)
