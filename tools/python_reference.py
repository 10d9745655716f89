"""Writes docs/reference/python.md from the package's own signatures and docstrings.

``python -m tools.python_reference [--check]``; ``--check`` writes nothing and exits with 1 if the committed page is not
what would be written.
"""

import inspect
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import workings
from tools.generated import deliver
from tools.option_effects import ARGUMENTS

PAGE = Path("docs/reference/python.md")
PROPERTIES = (property, cached_property, classmethod)
HEAD = """# Python

`import workings` loads no framework; what is used first is imported then. `help(workings.train)` says the same as this
page. [Getting started](../getting-started.md#from-python) has an example that runs.
"""
MATTERS = """## What each argument changes

A test shows for each argument that another value changes the result, or is refused for a reason.

| argument | test |
|---|---|"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in workings.__all__:
        parts += _entry(f"workings.{name}", getattr(workings, name), level=2)
    rows = [f"| `{argument.replace(' ', '(')})` | `tests/{test}` |" for argument, test in ARGUMENTS.items()]
    return "\n".join([*parts, MATTERS, *rows, ""])


def _entry(title: str, thing: Any, *, level: int) -> list[str]:
    text = inspect.getdoc(thing) or ""
    parts = [f"{'#' * level} `{title}`\n", f"```text\n{_signature(title, thing)}{text}\n```\n"]
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, PROPERTIES)):
                inner = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(thing, name)
                parts += _entry(f"Run.{name}", inner, level=level + 1)
    return parts


def _signature(title: str, thing: Any) -> str:
    if inspect.isclass(thing):
        return ""
    signature = inspect.signature(thing)
    names = [name for name in signature.parameters if name != "self"]
    if not names:
        return ""
    shown = str(signature.replace(return_annotation=inspect.Signature.empty, parameters=[
        each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()
        if each.name != "self"]))
    # Defaults that are objects would name an address in memory.
    return f"{title.rpartition('.')[2]}{re.sub(r'<[^>]*>', '…', shown)}\n\n"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
