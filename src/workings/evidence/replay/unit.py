"""A replay as a unit of the run that was replayed: `replay/<name>/`."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.record import atomic
from workings.record.layout import PREDICTIONS, REPLAY, REPLAY_ENVIRONMENT, check_relative, partial_unit_path
from workings.record.lock import DirectoryLock
from workings.record.seal import seal_unit

FOLDER = "replay"


def unit_path(run: Path, name: str) -> Path:
    """Where a replay of this name stands.

    Raises:
        RequestError: there is one already; or the name is not one that a record may hold.
    """
    if "/" in name:
        raise RequestError(f"--name {name}", "a name without folders")
    check_relative(name)
    path = run / FOLDER / name
    if path.exists():
        raise RequestError(f"{path}, which exists", "a new name; a sealed unit never changes", f"--name {name}-2")
    return path


def write_unit(path: Path, made_from: str, facts: Mapping[str, Any], environment: Mapping[str, Any],
               predictions: Sequence[Mapping[str, Any]]) -> str:
    """Write and seal one replay; it appears whole or not at all.

    Args:
        path: from `unit_path`.
        made_from: root digest of the run.
        facts: what was replayed and what came out.
        environment: where it was replayed.
        predictions: completions that were generated again.

    Returns:
        Root digest of the unit.
    """
    partial = partial_unit_path(path)
    # Left by a replay that was killed; its steps can be taken again.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    lock = DirectoryLock(partial)
    try:
        atomic.write_json(partial / REPLAY, dict(facts))
        atomic.write_json(partial / REPLAY_ENVIRONMENT, dict(environment))
        if predictions:
            atomic.write_jsonl(partial / PREDICTIONS, [dict(row) for row in predictions])
        root = seal_unit(partial, FOLDER, "complete", made_from)
        path.parent.mkdir(exist_ok=True)
        # The seal is inside by now, so the unit is whole from the first moment of its name.
        partial.rename(path)
        # Until the folder is on the disk, a power cut may take the new name back.
        atomic.sync_directory(path.parent)
    finally:
        lock.release()
    return root
