"""Commands in messages, printed so that they work where they are read."""

import os
import sys
from pathlib import Path
from shutil import which

SETUP_CUDA = "workings doctor --setup cuda"
"""Prints the PyTorch that suits this card and driver."""


def pip_install(what: str, *, extra: bool = True) -> str:
    """The line that brings an extra of this package (or another package) into the environment that runs.

    pip finds the installed package `workings` itself, wherever it came from, and adds what the extra names.
    """
    return f"{interpreter()} -m pip install '{f'workings[{what}]' if extra else what}'"


def interpreter() -> str:
    """How to type this Python: its name where the shell finds it, else its path, from here or from the home folder."""
    python = Path(sys.executable)
    # Compared as written: in a virtual environment the file is a link to the Python that made it.
    if which(python.name) == str(python):
        return python.name
    return typed_path(python)


def typed_path(path: Path) -> str:
    """A path as short as it can be typed here; it names no folder of the person where that can be avoided."""
    for base, before in ((Path.cwd(), ""), (Path.home(), f"~{os.sep}")):
        if path.is_relative_to(base):
            return f"{before}{path.relative_to(base)}"
    return str(path)


def no_file(path: Path) -> str:
    """What was looked for, for a message: a path of a recipe begins at the recipe's folder, which may be another."""
    return f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
