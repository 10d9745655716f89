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
    """Path of the replay with this name.

    Raises:
        RequestError: it exists already, or a record may not hold such a name.
    """
    # A slash would make a folder in the folder, where no unit is looked for.
    if "/" in name:
        raise RequestError(f"--name {name}", "a name without folders")
    check_relative(name)
    path = run / FOLDER / name
    refuse_existing(path)
    return path


def refuse_existing(path: Path) -> None:
    """Raise `RequestError` if the replay exists already."""
    if path.exists():
        raise RequestError(f"{path}, which exists", "a new name; a sealed unit never changes", f"--name {path.name}-2")


def write_unit(path: Path, made_from: str, facts: Mapping[str, Any], environment: Mapping[str, Any],
               predictions: Sequence[Mapping[str, Any]]) -> str:
    """Write and seal one replay; it appears whole or not at all.

    Args:
        path: from `unit_path`.
        made_from: root digest of the run.
        facts: contents of `replay.json`.
        environment: contents of `env_info.json`.
        predictions: completions that were generated again.

    Returns:
        Root digest of the unit.

    Raises:
        RequestError: another process is writing a replay of this name, or has written one.
    """
    partial = partial_unit_path(path)
    partial.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(partial)
    try:
        # Behind the lock: files that are there are those of a replay that was killed, and can be made again.
        _empty(partial)
        if path.exists():  # another replay has taken the name meanwhile
            partial.rmdir()
        refuse_existing(path)
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


def _empty(folder: Path) -> None:
    for path in list(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
