"""Texts generated from a record: READMEs. They are views, not evidence.

`verify` renders each again and compares the bytes, and `workings verify --render` prints what the record gives.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evidence.pack.form import PACK
from workings.evidence.pack.readme import PackedRun, readme
from workings.evidence.run_readme import run_readme
from workings.evidence.verify.load import load
from workings.evidence.verify.record import PACK_KIND, Unit
from workings.evidence.verify.tree import open_tree
from workings.record.layout import (
    OVERRIDES,
    README,
)

View = Callable[[], str]
"""Renders a text. Raises `RecordError`."""


def views_of(unit: Unit) -> dict[str, View]:
    """The texts that this version makes of a unit, by their names in it; none of what `train` did not write."""
    if unit.is_run:
        return {README: lambda: run_readme(unit.manifest, unit)} if unit.written_by_train else {}
    return {README: lambda: _pack_readme(unit)} if unit.kind == PACK_KIND else {}


def writer_of(unit: Unit) -> str:
    """Version of this package that wrote a unit's views. Raises `RecordError`."""
    if unit.is_run:
        return unit.manifest.workings_version
    return str(unit.json_object(PACK).get("workings_version"))


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


def units_in(pack: Unit) -> dict[str, Unit]:
    """The units of a pack by their path in it."""
    return {unit.path[len(pack.path):].lstrip("/"): unit for unit in pack.record.units
            if unit is not pack and unit.path.startswith(pack.tree_path(""))}


def _pack_readme(pack: Unit) -> str:
    contents: Mapping[str, Any] = pack.json_object(PACK)
    units = units_in(pack)
    return readme(str(contents["workings_version"]), {path: unit.root for path, unit in units.items()}, {
        path: PackedRun(manifest=unit.manifest, asked=unit.json(OVERRIDES) if unit.has(OVERRIDES) else {})
        for path, unit in units.items() if unit.is_run}, by_digest=bool(contents["by_digest"]))
