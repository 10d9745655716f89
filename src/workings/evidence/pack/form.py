"""Contents of `pack.json`, and the one kind of file that a pack may name by its digest instead of holding it."""

import re
from dataclasses import dataclass
from typing import Any

from workings.errors import RecordError
from workings.record.digest import is_digest

PACK = "pack.json"
SCHEMA = "pack/1"
RUNS = "runs"
"""Folder whose sub-folders are the packed runs."""
SAMPLES_SUFFIX = "-samples"
"""End of the names of packed samples, which are often called like the run that drew them."""
INSIDE, BY_DIGEST = "inside", "digest"

_TENSORS = re.compile(r"checkpoints/step_\d{6,12}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}\.safetensors")
# Exactly these keys: an unknown one would go unchecked.
_KEYS = {"schema", "workings_version", "weights", "units", "by_digest"}


def may_be_external(file: str) -> bool:
    """Whether a run's file may be named by digest only: a checkpoint's tensors, nothing else.

    The files that the checks of levels 0 to 2 read (log, data index, commits, evaluations) must be in the pack. Tensors
    are needed by a replay only, which reports that they are missing.
    """
    return _TENSORS.fullmatch(file) is not None


@dataclass(frozen=True, kw_only=True)
class ExternalFile:
    """A file that the pack names by its digest instead of holding it."""

    run_path: str
    """Path of the run in the pack."""
    file: str
    sha256: str
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """A row of `by_digest`."""
        return {"place": self.run_path, "file": self.file, "sha256": self.sha256, "bytes": self.bytes}


def pack_json(version: str, weights: str, units: dict[str, str], by_digest: list[ExternalFile]) -> dict[str, Any]:
    """The contents of `pack.json`: every unit with its root, every file that is not here with its digest."""
    return {"schema": SCHEMA, "workings_version": version, "weights": weights,
            "units": [{"place": place, "root": root} for place, root in sorted(units.items())],
            "by_digest": [row.to_json() for row in sorted(by_digest, key=lambda row: (row.run_path, row.file))]}


def parse_pack(value: Any) -> tuple[dict[str, str], list[ExternalFile]]:
    """Roots of the units by path, and the files named by digest. Raises `RecordError`."""
    if not isinstance(value, dict) or set(value) != _KEYS or value["schema"] != SCHEMA:
        raise RecordError(f"{PACK}: not the keys of {SCHEMA}")
    units, rows = value["units"], value["by_digest"]
    if not isinstance(units, list) or not all(_are_texts(row, "place", "root") for row in units):
        raise RecordError(f"{PACK}: units are not places with roots")
    if not isinstance(rows, list) or not all(
            isinstance(row, dict) and set(row) == {"place", "file", "sha256", "bytes"}
            and all(isinstance(row[name], str) for name in ("place", "file", "sha256"))
            # `type` and not `isinstance`, because `True` is an int as well.
            and type(row["bytes"]) is int and is_digest(row["sha256"]) for row in rows):
        raise RecordError(f"{PACK}: files by digest do not have place, file, sha256 and bytes")
    roots = {row["place"]: row["root"] for row in units}
    if len(roots) != len(units):
        raise RecordError(f"{PACK}: a unit is there twice")
    # A pack that says that its weights are inside may not excuse any file at the same time.
    if value["weights"] not in (INSIDE, BY_DIGEST) or (value["weights"] == INSIDE and rows):
        raise RecordError(f"{PACK}: weights are {str(value['weights'])[:40]!r}, and {len(rows)} files are not here")
    return roots, [ExternalFile(run_path=row["place"], file=row["file"], sha256=row["sha256"], bytes=row["bytes"])
                   for row in rows]


def _are_texts(row: Any, *names: str) -> bool:
    return isinstance(row, dict) and set(row) == set(names) and all(isinstance(row[name], str) for name in names)
