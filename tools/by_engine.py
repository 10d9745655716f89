"""A benchmark's measurement of each engine in its own child process, once the machine is idle."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.other_load import Load

NOTHING_KEPT = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
"""Environment of a child that compiles for itself, whatever earlier runs have kept."""


def as_advised() -> dict[str, str]:
    """Environment of a child that measures an engine with pages of 2 MiB, which glibc asks for by this variable."""
    return os.environ | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def by_engine(module: str, folder: Path, engines: Sequence[str], load: Load,
              words: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Engine, what ``python -m module WORDS --measure FOLDER ENGINE`` printed last, and cores that others used before.

    Ends with exit code 3 when others use too much.
    """
    for engine in engines:
        others = load.check()
        output = subprocess.run([sys.executable, "-m", module, *words, "--measure", str(folder), engine],
                                check=True, stdout=subprocess.PIPE, text=True,
                                env=as_advised() | NOTHING_KEPT).stdout
        yield engine, json.loads(output.splitlines()[-1]), round(others, 2)
