"""Writes a run directory: `runs/name.partial`, which becomes `runs/name` when it is sealed."""

import os
import shutil
from pathlib import Path
from shlex import quote
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record import atomic, jsonl, layout, recovery
from workings.record.canonical import loads
from workings.record.checkpoints import CheckpointStore
from workings.record.lock import DirectoryLock
from workings.record.manifest import RunManifest
from workings.record.metrics import check_line
from workings.record.redact import cleaned
from workings.record.storage import storage
from workings.record.values import now


def refuse_taken(final: Path) -> None:
    """Raise `RequestError` if a run of that name exists, sealed or not."""
    partial = layout.partial_path(final)
    if os.path.lexists(final):
        raise RequestError(f"{final} already exists", "the name of a new run", "another --out")
    if os.path.lexists(partial):
        raise RequestError(f"{final} has an unfinished run ({partial.name})", "the name of a new run",
                           "--resume to continue that run, or another --out")


class RunWriter:
    """The one writer of a run that is not sealed yet. Made by `create`, `reopen` or `resume`.

    Everything it writes is cleaned: tokens and keys are redacted, the home folder is written as `~`. Values whose
    digest is recorded must be clean before (`workings.record.redact.cleaned`): a digest is that of what is written.
    """

    def __init__(self, final: Path, lock: DirectoryLock) -> None:
        self.final = final
        self.directory = lock.path
        self._lock = lock
        with storage(self.directory, "write"):
            for folder in layout.RUN_FOLDERS:
                (self.directory / folder).mkdir(exist_ok=True)
        self._metrics = jsonl.Appender(self.directory / layout.METRICS)
        self._events = jsonl.Appender(self.directory / layout.EVENTS)
        self._log = jsonl.Appender(self.directory / layout.LOG)
        rows = self.metrics()
        self._last_step = int(rows[-1]["step"]) if rows else 0
        self.checkpoints = CheckpointStore(self.directory / layout.CHECKPOINTS, before_commit=self.sync)

    @classmethod
    def create(cls, final: Path) -> "RunWriter":
        """A new run. Raises `RequestError` if a run of that name exists, sealed or not, and `StorageError`."""
        refuse_taken(final)
        partial = layout.partial_path(final)
        with storage(partial, "make"):
            final.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.mkdir()
            except FileExistsError:
                raise RequestError(f"another process has just begun {final}", "one writer for each run",
                                   "another --out") from None
            return cls(final, DirectoryLock(partial))

    @classmethod
    def reopen(cls, final: Path) -> "RunWriter":
        """Resume a run that was stopped before it was sealed. Incomplete lines are removed and become events.

        Raises `RequestError`: there is no unfinished run, another process is writing it, or only its seal was missing.
        """
        partial = layout.partial_path(final)
        if not partial.is_dir():
            raise RequestError(f"{final} has no unfinished run", f"a folder {partial.name}",
                               "leave --resume out to start it")
        lock = DirectoryLock(partial)
        try:
            if status := recovery.finish_sealing(final):
                raise RequestError(f"{final} had already ended with status {status}; it is sealed now",
                                   "an unfinished run", f"workings verify {quote(str(final))}")
            # Repaired before the files are opened for appending: cutting a torn line replaces the file.
            repairs = recovery.repair(partial)
            writer = cls(final, lock)
        except BaseException:
            lock.release()
            raise
        for repair in repairs:
            writer.event(**repair)
        return writer

    @classmethod
    def resume(cls, final: Path) -> "RunWriter":
        """Resume a run, unfinished (`reopen`) or sealed as interrupted or failed.

        A sealed run stays as it is and is renamed to `name.interrupted-1`; the new one starts from its metrics, events,
        log and newest good checkpoint, and `resumed_from` names it. Raises `RequestError` if it is complete, or there
        is nothing to resume.
        """
        if layout.partial_path(final).is_dir():
            lock = DirectoryLock(layout.partial_path(final))
            # Another process may be sealing. `reopen` takes the lock itself, so it is given back first.
            finished = recovery.finish_sealing(final)
            lock.release()
            if not finished:
                return cls.reopen(final)
        recovery.begin_from_sealed(final)
        return cls.reopen(final)

    @property
    def resumed_from(self) -> dict[str, str] | None:
        """`name` and `root` of the sealed run that this one resumed, from its events; None if there is none."""
        for row in reversed(jsonl.read(self.path(layout.EVENTS))[0]):
            if row.get("kind") == "resumed_from_sealed":
                return {"name": row["name"], "root": row["root"]}
        return None

    def path(self, relative: str) -> Path:
        """Path of a file of the run; makes its folder. Raises `RecordError` for an invalid name."""
        path = self.directory / layout.check_relative(relative)
        with storage(path, "make"):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, relative: str, obj: Any) -> None:
        """Write canonical JSON, cleaned, atomically. Raises `RecordError` for nulls, `StorageError` for the disk."""
        atomic.write_json(self.path(relative), cleaned(obj))

    def write_text(self, relative: str, text: str) -> None:
        """Write cleaned UTF-8 text, atomically. Raises `StorageError`."""
        atomic.write_text(self.path(relative), cleaned(text))

    def write_cleaned(self, relative: str, data: bytes | memoryview) -> None:
        """Write UTF-8 text that `workings.record.redact.cleaned` has gone over already. Raises `StorageError`."""
        atomic.write_bytes(self.path(relative), data)

    def write_rollout(self, step: int, values: dict[str, Any]) -> None:
        """Write the rollout before an update, atomically and uncleaned: its numbers are packed, not texts."""
        atomic.write_json(self.path(layout.rollout_file(step)), values)

    def rollout(self, step: int) -> dict[str, Any] | None:
        """The rollout before an update, if an earlier attempt has written it."""
        path = self.directory / layout.rollout_file(step)
        return dict(loads(path.read_bytes())) if path.is_file() else None

    def metrics(self) -> list[dict[str, Any]]:
        """Lines of the steps so far."""
        return jsonl.read(self.directory / layout.METRICS)[0]

    def metric(self, values: dict[str, Any]) -> None:
        """Add a step's line. Steps go 1, 2, 3, … Raises `RecordError` for a gap or a key that is missing or wrong."""
        step = check_line(values).step
        if step != self._last_step + 1:
            raise RecordError(f"metrics of step {step} after those of step {self._last_step}")
        self._metrics.append(values)
        self._last_step = step

    def event(self, kind: str, **facts: Any) -> None:
        """Add an event with the present time."""
        self._events.append({"time": now(), "kind": kind, **cleaned(facts)})

    def log(self, text: str) -> None:
        """Add cleaned text and a newline to the training log."""
        self._log.append_bytes((cleaned(text) + "\n").encode("utf-8"))

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        # Do not wait for the log; a resume needs metrics and events.
        self._metrics.sync()
        self._events.sync()

    def truncate_metrics(self, last_step: int) -> dict[str, int]:
        """On resume: keep the lines up to a step, drop the rest, atomically; and rollouts that later steps began.

        The result is `kept_steps` and `dropped_steps`, for an event. Raises `RecordError` where kept lines are missing.
        """
        path = self.directory / layout.METRICS
        facts = recovery.keep_metrics(path, last_step)
        recovery.remove_rollouts(self.directory, last_step)
        self._metrics.close()  # the old descriptor would write to the replaced file
        self._metrics = jsonl.Appender(path)
        self._last_step = last_step
        return facts

    def seal(self, manifest: RunManifest) -> Path:
        """Write the manifest, the sums and the seal, and give the folder its final name.

        Once the manifest is there, the next `reopen` or `resume` finishes a killed sealing. Raises `StorageError` and
        keeps the unsealed folder if the disk is full or failing.
        """
        self.sync()
        self.checkpoints.clean()
        self.checkpoints.prune(self._last_step)
        atomic.sync_tree(self.directory)
        # All else is on the disk by now: from this file on a killed sealing is finished, and not resumed.
        atomic.write_json(self.directory / layout.MANIFEST, cleaned(manifest.to_json()))
        recovery.finish_sealing(self.final)
        self.close()
        return self.final

    def discard(self) -> None:
        """Remove the folder of a new run in which nothing was done yet.

        A run with a step, a completion or a checkpoint, or one that resumes an earlier one, is kept.
        """
        done = (self.metrics() or self.resumed_from or self.checkpoints.folders()
                or any(any((self.directory / name).glob("*")) for name in (layout.ROLLOUTS, layout.TOP_TOKENS)))
        if not done:
            # Under the lock, so that nothing has begun to resume it.
            shutil.rmtree(self.directory)
        self.close()

    def close(self) -> None:
        """Close the files and release the lock; the folder does not change."""
        self._metrics.close()
        self._events.close()
        self._log.close()
        self._lock.release()
