"""Answers about the shipped recipes that were compiled or traced before, and come with the package.

They lie in one generated file (`python -m tools.ship_plans`), each under the digest of everything that decided it: what
was asked, the machine, the versions of libraries and the engine's own source. Where one of these differs here, the
digest differs too, nothing is found, and the program is compiled as if there were no file.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from workings.engines.base import Inspection

FILE = "shipped_plans.json"
"""Beside this module."""


@cache
def shipped_plans() -> dict[str, dict[str, Any]]:
    """What the file holds, by digest: ``plan``, the recipe and machine that it was made for, and ``answer``."""
    return json.loads((files("workings.planning") / FILE).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def shipped_answer(digest: str) -> Inspection | None:
    """The answer under this digest, with a note that says where it comes from; None where there is none."""
    entry = shipped_plans().get(digest)
    return None if entry is None else as_shipped(entry["answer"])


def as_shipped(answer: Mapping[str, Any]) -> Inspection:
    """An answer of the file as an inspection that says where it comes from."""
    found = Inspection.from_json(answer)
    note = (f"{found.source} before and shipped with this package: for the same program, by the same source and the "
            "same versions, which are named below; nothing was compiled now")
    return replace(found, notes=(*found.notes, note), details={**found.details, "shipped": True})
