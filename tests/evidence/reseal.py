"""What a forger does: change files of a sealed record and seal them again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evidence import walk
from workings.record import atomic, canonical
from workings.record.digest import bytes_digest


def reseal(unit: Path) -> None:
    """Seal a unit again with what it holds now, and the evaluations inside a run, which are told their new origin."""
    walk.write_files(walk.resealed(walk.files_of(unit), commits=False), unit)


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Replace a JSON file's value."""
    atomic.write_bytes(path, canonical.line(change(json.loads(path.read_bytes()))))


def edit_lines(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Replace the values of a JSON-lines file."""
    rows = change([json.loads(line) for line in path.read_bytes().splitlines()])
    atomic.write_bytes(path, b"".join(canonical.line(row) for row in rows))


def edit_manifest(run: Path, **changes: Any) -> None:
    """Change keys of the manifest."""
    edit_json(run / "run_manifest.json", lambda value: value | changes)


def recommit(checkpoint: Path) -> None:
    """Make a checkpoint's commit agree with its files again."""
    edit_json(checkpoint / "COMMIT.json", lambda value: value | {"files": {
        name: {"bytes": (checkpoint / name).stat().st_size, "sha256": bytes_digest((checkpoint / name).read_bytes())}
        for name in value["files"]}})


def change_config(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the resolved recipe."""
    edit_json(run / "config/resolved.json", change)
