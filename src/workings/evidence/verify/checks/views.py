"""Texts generated from a record: READMEs. They are views, not evidence.

`verify` renders each again and compares the bytes, and `workings verify --render` prints what the record gives.
"""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from workings.errors import RequestError
from workings.evidence.pack.form import PACK
from workings.evidence.readmes import pack_readme, run_readme
from workings.evidence.verify.load import load
from workings.evidence.verify.record import PACK_KIND, Unit
from workings.evidence.verify.registry import Found, check, not_checked
from workings.evidence.verify.tree import open_tree
from workings.plugins import OURS
from workings.record.layout import OVERRIDES, README

MAX_VIEW_BYTES = 16 << 20
"""Largest text that is compared."""
View = Callable[[], str]
"""Renders a text. Raises `RecordError`."""


@check("consistency.views", "units")
def texts(unit: Unit) -> Found:
    """README, rendered again, byte for byte; those of another version are not compared."""
    views = views_of(unit)
    if not views:
        return None
    writer = unit.manifest.workings_version if unit.is_run else str(unit.json_object(PACK).get("workings_version"))
    if writer != version(OURS):
        return not_checked(f"written by workings {writer[:20]}; `workings verify --render` prints what this version "
                           "makes of the record", blocking=False)
    yield from (f"{name} is not what the record gives: `workings verify --render {name}` prints that"
                for name, render in views.items()
                if not unit.has(name) or unit.read(name, MAX_VIEW_BYTES) != render().encode("utf-8"))
    return ", ".join(views)


def views_of(unit: Unit) -> dict[str, View]:
    """The texts that this version makes of a unit, by their names in it; none of what `train` did not write."""
    if unit.is_run:
        return {README: lambda: run_readme(unit.manifest, unit)} if unit.written_by_train else {}
    return {README: lambda: _pack_readme(unit)} if unit.kind == PACK_KIND else {}


def render(path: Path, name: str) -> str:
    """A view of the outermost unit of a record.

    Raises:
        RequestError: the record has no view of this name.
        RecordError: the record cannot be read.
    """
    views = views_of(load(open_tree(path)).units[0])
    if name not in views:
        raise RequestError(f"{path} has no view named {name!r}", f"one of {', '.join(views) or 'none'}",
                           f"workings verify {path} --render {next(iter(views), README)}")
    return views[name]()


def _pack_readme(pack: Unit) -> str:
    contents, units = pack.json_object(PACK), pack.units_inside
    return pack_readme(str(contents["workings_version"]), {path: unit.root for path, unit in units.items()}, {
        path: (unit.manifest, unit.json(OVERRIDES) if unit.has(OVERRIDES) else {})
        for path, unit in units.items() if unit.is_run}, by_digest=bool(contents["by_digest"]))
