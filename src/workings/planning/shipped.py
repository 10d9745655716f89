"""Answers about the shipped recipes that were compiled or traced before, and come with the package.

They lie in one generated file (`python -m tools.ship_plans`), each under the digest of everything that decided it: what
was asked, the machine, the versions of libraries and the engine's own source. Where one of these differs here, the
digest differs too, nothing is found, and the program is compiled as if there were no file.
"""

import json
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
    return json.loads((files("workings.planning") / FILE).read_text(encoding="utf-8"))


def shipped_answer(digest: str) -> Inspection | None:
    """The answer under this digest, with a note that says where it comes from; None where there is none."""
    entry = shipped_plans().get(digest)
    if entry is None:
        return None
    found = Inspection.from_json(entry["answer"])
    note = (f"{found.source} beforehand and shipped with this package, by the same source of the engine and the same "
            "versions of libraries as here; nothing was compiled now")
    return replace(found, notes=(*found.notes, note), details={**found.details, "shipped": True})
