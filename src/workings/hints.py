"""Commands and paths in messages, written so that a reader can type them here."""

import os
import sys
from pathlib import Path
from shutil import which

SETUP_CUDA = "workings doctor --setup cuda"
"""Prints the PyTorch that suits this card and driver."""


def pip_install(what: str, *, extra: bool = True) -> str:
    """The command that installs an extra of this package, or without ``extra`` another package, for this Python."""
    requirement = f"workings[{what}]" if extra else what
    return f"{interpreter()} -m pip install '{requirement}'"


def interpreter() -> str:
    """How to type this Python: by its name if the shell finds it, else by its path."""
    python = Path(sys.executable)
    # Compare unresolved paths: in a virtual environment the file is a link to the base Python.
    if which(python.name) == str(python):
        return python.name
    return typed_path(python)


def typed_path(path: Path) -> str:
    """A path relative to the working folder or, with ``~``, to the home folder; any other path unchanged."""
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    if path.is_relative_to(Path.home()):
        return f"~{os.sep}{path.relative_to(Path.home())}"
    return str(path)


def no_file(path: Path) -> str:
    """Why a path is not a file, for a message."""
    return f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
