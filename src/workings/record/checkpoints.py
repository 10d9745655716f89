"""Saves and finds checkpoints. One that is incomplete or damaged never counts.

A checkpoint is a folder `step_000100/` with the engine's files, `state.json` and, written last, `COMMIT.json` with the
size and digest of each file. A folder without it, or with a file that differs from it, never counts as the latest.

The best checkpoint of a run is a function of its recipe and its log only, so that a verifier can recompute it.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RecordError
from workings.record import atomic
from workings.record.canonical import loads, read_json
from workings.record.digest import file_digest
from workings.record.layout import COMMIT, STATE, check_relative, checkpoint_folder
from workings.record.storage import read_plain, storage

SCHEMA = "checkpoint/1"
FIELDS = {"loss": "evaluation_loss", "accuracy": "held_out_score"}
"""Value of `checkpoint.measure` -> its field in a metrics line."""
MARKS = "held_out_right"
"""Field of a metrics line: a 1 for each held-out item that was answered correctly, a 0 for each other one."""
KEPT = "kept"
"""Key of the manifest's facts about the best checkpoint."""
_NAME = re.compile(r"step_(\d{6}|[1-9]\d{6,11})")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint, with the facts that were given to `CheckpointStore.save`."""

    step: int
    path: Path
    facts: dict[str, Any]


class CheckpointStore:
    """The checkpoints of one run. Keeps the newest ``keep_last``, and the best one if there is one."""

    def __init__(self, directory: Path, keep_last: int = 2, before_commit: Callable[[], None] | None = None) -> None:
        """``before_commit`` runs before a checkpoint counts: the lines it rests on must be on the disk first."""
        self.directory = directory
        self.keep_last = keep_last
        self.best_step: int | None = None
        """Step of a checkpoint to keep always."""
        self._before_commit = before_commit or (lambda: None)

    def save(self, step: int, write: Callable[[Path], None], facts: dict[str, Any]) -> Path:
        """Write one checkpoint, drop old ones, and return its folder.

        ``step``: completed steps; ``write``: puts the engine's files into the empty folder that it is given; ``facts``:
        JSON without nulls, for ``state.json``. Raises `StorageError`; earlier checkpoints are then untouched.
        """
        final = self.directory / checkpoint_folder(step)
        with storage(final, "save"):
            self.clean()
            with atomic.new_folder(final, "save") as temporary:
                write(temporary)
                atomic.write_json(temporary / STATE, {"step": step, "facts": facts})
                # Tensors first, then the lines that the checkpoint rests on, then the file that makes it count.
                atomic.sync_tree(temporary)
                self._before_commit()
                atomic.write_json(temporary / COMMIT, {"schema": SCHEMA, "step": step, "files": describe(temporary)})
                if final.exists():  # from before a resume: damaged, or about to be written again with the same bytes
                    self._discard(final)
            self.prune(step)
        return final

    def latest_valid(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest intact checkpoint, and a line for each newer damaged one."""
        skipped: list[str] = []
        for path in reversed(self.folders()):
            try:
                return self.load(path), skipped
            except RecordError as error:
                skipped.append(str(error))
        return None, skipped

    def load(self, path: Path) -> Checkpoint:
        """Check one checkpoint's files against its commit and read its facts. Raises `RecordError` naming the file."""
        if path.is_symlink():
            raise RecordError(f"{path.name}: a link, which leads out of the run; the folder itself belongs there")
        step = step_of(path.name)
        if not (path / COMMIT).is_file():
            raise RecordError(f"{path.name}: no {COMMIT}, so it was never completed")
        try:
            commit = parse_commit(read_plain(path / COMMIT), step)
        except RecordError as error:
            raise RecordError(f"{path.name}/{COMMIT}: {error}") from None
        files = {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()} - {COMMIT}
        if files != set(commit):
            raise RecordError(f"{path.name}: files differ from {COMMIT}: {sorted(files ^ set(commit))[:5]}")
        for name, fact in commit.items():
            file = path / name
            # A link could lead out of the run, to bytes that no seal covers.
            if file.is_symlink() or not file.is_file():
                raise RecordError(f"{path.name}/{name}: not a regular file")
            if (size := file.stat().st_size) != fact["bytes"]:
                raise RecordError(f"{path.name}/{name}: {size} bytes, {fact['bytes']} were committed")
            if file_digest(file) != fact["sha256"]:
                raise RecordError(f"{path.name}/{name}: its bytes differ from those committed")
        state = read_json(path / STATE)
        if state["step"] != step:
            raise RecordError(f"{path.name}: {STATE} says step {state['step']}")
        return Checkpoint(step=step, path=path, facts=state["facts"])

    def folders(self) -> list[Path]:
        """Checkpoint folders by step, unchecked."""
        return sorted((path for path in self.directory.glob("step_*") if _NAME.fullmatch(path.name) and path.is_dir()),
                      key=lambda path: step_of(path.name))

    def clean(self) -> list[str]:
        """Remove leftovers of a killed save or removal; returns their names."""
        left = [path for path in self.directory.glob(".step_*") if path.is_dir()]
        for path in left:
            shutil.rmtree(path)
        return [path.name for path in left]

    def prune(self, step: int) -> None:
        """Keep the best and the newest checkpoints up to a step. Later ones are of a course that a resume has left."""
        folders = self.folders()
        earlier = [path for path in folders if step_of(path.name) <= step]
        kept = earlier[-self.keep_last:] + [path for path in earlier if step_of(path.name) == self.best_step]
        for path in folders:
            if path not in kept:
                self._discard(path)

    def _discard(self, path: Path) -> None:
        if path.is_symlink():
            path.unlink()  # do not follow links
            return
        # Renamed first: a removal that is killed half-way must not leave a folder that looks like a checkpoint.
        hidden = path.with_name(f".{path.name}.old")
        path.rename(hidden)
        shutil.rmtree(hidden)


def describe(directory: Path) -> dict[str, dict[str, Any]]:
    """Size and digest of every file below a folder but `COMMIT.json`, by relative path."""
    result = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            relative = path.relative_to(directory).as_posix()
            if relative != COMMIT:
                check_relative(relative)
                result[relative] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    return result


def parse_commit(data: bytes, step: int) -> dict[str, dict[str, Any]]:
    """Contents of a `COMMIT.json` for this step: each file's `bytes` and `sha256`. Raises `RecordError`."""
    commit = loads(data)
    if not isinstance(commit, dict) or commit != {"schema": SCHEMA, "step": step, "files": commit.get("files")}:
        raise RecordError(f"not a {SCHEMA} of step {step}, with its files")
    files = commit["files"]
    if not isinstance(files, dict) or STATE not in files:
        raise RecordError(f"lists no {STATE}")
    for name, fact in files.items():
        check_relative(name)
        if (not isinstance(fact, dict) or set(fact) != {"bytes", "sha256"} or type(fact["bytes"]) is not int
                or not isinstance(fact["sha256"], str)):
            raise RecordError(f"{name}: size or digest is missing")
    return files


def step_of(name: str) -> int:
    """The step in the name of a checkpoint's folder. Raises `RecordError` for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise RecordError(f"{name[:60]!r}: not a checkpoint's name")
    return int(match[1])


@dataclass(frozen=True, kw_only=True)
class BestCheckpoint:
    """The best of the measured checkpoints, the earliest of equal ones."""

    step: int
    measure: str
    value: float
    last_step: int
    last_value: float
    measured: int
    """Number of measured checkpoints; the last one is ``last_step``."""
    since: int
    """Measured checkpoints after the best one."""
    marks: tuple[str, str]
    """Which items were correct, for the best and the last one; empty for losses."""
    patience: int
    """`checkpoint.patience`."""

    @property
    def ends_the_run(self) -> bool:
        """Whether no better one has come for `patience` checkpoints."""
        return 0 < self.patience <= self.since

    @property
    def reason(self) -> str:
        """Reason of the end of a run that this ends."""
        return (f"no better {self.measure} than after step {self.step} in {self.since} "
                f"checkpoint{'' if self.since == 1 else 's'}, which is checkpoint.patience")


def best_checkpoint(section: Mapping[str, Any], lines: Iterable[Mapping[str, Any]], planned_steps: int
                    ) -> BestCheckpoint | None:
    """The best checkpoint; None where the recipe keeps the last one, or none is measured.

    ``section``: the recipe's `checkpoint`; ``lines``: of `train/metrics.jsonl`, in order. The last planned step is
    always saved and measured.
    """
    if section.get("keep", "last") != "best":
        return None
    every, measure = int(section["every_steps"]), str(section["measure"])
    measured = [line for line in lines if FIELDS[measure] in line
                and (line["step"] % every == 0 or line["step"] == planned_steps)]
    if not measured:
        return None
    values = [float(line[FIELDS[measure]]) for line in measured]
    best_value = min(values) if measure == "loss" else max(values)
    place = values.index(best_value)
    best, last = measured[place], measured[-1]
    return BestCheckpoint(
        step=int(best["step"]), measure=measure, value=best_value, last_step=int(last["step"]),
        last_value=values[-1], measured=len(measured), since=len(measured) - 1 - place,
        marks=(str(best.get(MARKS, "")), str(last.get(MARKS, ""))) if measure == "accuracy" else ("", ""),
        patience=int(section.get("patience", 0)))
