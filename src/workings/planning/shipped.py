"""Inspections of the shipped recipes that were compiled or traced before and come with the package.

One generated file (`python -m tools.ship_plans`) has them, each under the digest of everything that decided it: the
request, the machine, the versions of libraries and the engine's own source. If one of these differs here, the digest
differs too, and the program is compiled as if there were no file.
"""

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from workings.engines.base import Inspection

FILE = "shipped_plans.json"
"""File in the folder of this module."""


@cache
def shipped_plans() -> dict[str, dict[str, Any]]:
    """Entries of the file by digest: ``plan``, the recipe and machine that it was made for, and ``answer``."""
    return json.loads((files("workings.planning") / FILE).read_text(encoding="utf-8"))


def shipped_answer(digest: str) -> Inspection | None:
    """The inspection under this digest, with a note about its origin; None if there is no such entry."""
    entry = shipped_plans().get(digest)
    if entry is None:
        return None
    inspection = Inspection.from_json(entry["answer"])
    note = (f"{inspection.source} beforehand and shipped with this package, by the same source of the engine and the "
            "same versions of libraries as here; nothing was compiled now")
    return replace(inspection, notes=(*inspection.notes, note))
