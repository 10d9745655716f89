"""Commands in messages, printed so that they work where they are read."""

import os
import sys
from pathlib import Path
from shutil import which

SETUP_CUDA = "workings doctor --setup cuda"
"""Prints the PyTorch that suits this card and driver."""


def pip_install(what: str, *, extra: bool = True) -> str:
    """The command that installs an extra of this package (or another package) into the running environment.

    pip finds the installed `workings` by itself, from any source, and adds what the extra names.
    """
    return f"{interpreter()} -m pip install '{f'workings[{what}]' if extra else what}'"


def interpreter() -> str:
    """How to type this Python: its name where the shell finds it, else its path, from here or from the home folder."""
    python = Path(sys.executable)
    # Compare unresolved paths: in a virtual environment the file is a link to the base Python.
    if which(python.name) == str(python):
        return python.name
    return typed_path(python)


def typed_path(path: Path) -> str:
    """The shortest form of a path that works here; it avoids naming the user's folders."""
    for base, before in ((Path.cwd(), ""), (Path.home(), f"~{os.sep}")):
        if path.is_relative_to(base):
            return f"{before}{path.relative_to(base)}"
    return str(path)


def no_file(path: Path) -> str:
    """What is missing, for a message. Paths in a recipe are relative to the recipe's folder."""
    return f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
