"""The code fences of the documentation, and which of them run as tests.

A fence whose language is ``bash`` or ``python`` runs, in the order of the page, in one temporary directory per page.
A comment on the line above the fence keeps it from running and says why::

    <!-- not run: takes hours -->
    ```bash
    make proof
    ```
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tools.generated import ROOT

RUNNABLE = ("bash", "python")

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Fence:
    """One fenced block."""

    line: int
    """Line of the opening fence, from 1."""
    language: str
    code: str
    not_run: str
    """Why it does not run as a test; empty if it does."""


def fences(text: str) -> list[Fence]:
    """All fences of one page, in order."""
    found = []
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        before = text[:match.start("indent")]
        found.append(Fence(line=before.count("\n") + 1, language=match["language"], code=code,
                           not_run=match["reason"] or ""))
    return found


def pages() -> list[Path]:
    """Every page whose fences and quoted numbers are checked, relative to the repository."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/*.md"),
             *ROOT.glob("examples/runs/*/README.md")]
    return sorted(file.relative_to(ROOT) for file in files)
