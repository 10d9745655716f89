"""Repairs a run directory that a killed process left: torn lines, temporary files, an unfinished sealing."""

import re
import shutil
from pathlib import Path
from shlex import quote
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record import atomic, jsonl, layout
from workings.record.checkpoints import CheckpointStore
from workings.record.manifest import RunFolder, read_manifest
from workings.record.reader import RunRecord
from workings.record.seal import parse_seal, seal_unit
from workings.record.storage import storage
from workings.record.values import now


def finish_sealing(final: Path) -> str:
    """Seal an unsealed run whose manifest is written, and give it its final name. Call with the lock held.

    Every step can be repeated. The result is the status; empty if the run has not ended, and so has no manifest.
    """
    partial = layout.partial_path(final)
    if not (partial / layout.MANIFEST).is_file():
        return ""
    status = read_manifest(RunFolder(partial)).status
    with storage(final, "seal"):
        if not (partial / layout.SEAL).exists():
            # The seal refuses hidden files. Recompute checksums of a killed sealing.
            remove_temporaries(partial)
            (partial / layout.SUMS).unlink(missing_ok=True)
            seal_unit(partial, "run", status, None)
        partial.rename(final)
        atomic.sync_directory(final.parent)
    return status


def repair(partial: Path) -> list[dict[str, Any]]:
    """Cut torn last lines and remove temporary files; one event (its `kind` and facts) for each thing done.

    Raises `RecordError`, which says what to do, where the metrics have a damaged line.
    """
    events: list[dict[str, Any]] = []
    with storage(partial, "repair"):
        for name in (layout.METRICS, layout.EVENTS, layout.LOG):
            torn = jsonl.cut_torn_line(partial / name)
            if torn is not None:
                events.append({"kind": "torn_line", "file": name, "bytes": len(torn.encode("utf-8"))})
        if removed := remove_temporaries(partial) + CheckpointStore(partial / layout.CHECKPOINTS).clean():
            events.append({"kind": "leftovers_removed", "names": sorted(removed)})
    try:
        jsonl.read(partial / layout.METRICS)
    except RecordError as error:
        raise _cannot_go_on(partial / layout.METRICS, str(error)) from None
    return events


def remove_temporaries(directory: Path) -> list[str]:
    """Remove the temporary files of writes that never took effect; their names."""
    removed = []
    for path in directory.rglob(f".*{atomic.TEMPORARY_SUFFIX}"):
        if path.is_file() and not path.parent.name.startswith(".step_"):
            path.unlink()
            removed.append(path.relative_to(directory).as_posix())
    return removed


def keep_metrics(path: Path, last_step: int) -> dict[str, int]:
    """Rewrite a metrics file with its lines up to ``last_step``; how many steps were kept and dropped."""
    data = path.read_bytes()
    rows, _ = jsonl.parse(data, path.name)
    kept_rows = [row for row in rows if int(row["step"]) <= last_step]
    # The checkpoint was saved after these lines were synced; a gap means that lines were removed.
    if [int(row["step"]) for row in kept_rows] != list(range(1, last_step + 1)):
        raise _cannot_go_on(path, f"lines of steps 1 to {last_step} are not all there")
    lines = data.split(b"\n")[:len(kept_rows)]
    atomic.write_bytes(path, b"".join(line + b"\n" for line in lines))
    return {"kept_steps": len(kept_rows), "dropped_steps": len(rows) - len(kept_rows)}


def remove_rollouts(directory: Path, last_step: int) -> None:
    """Remove the rollouts after ``last_step``: they are about to be sampled again."""
    steps = (layout.rollout_step(path.name) for path in (directory / layout.ROLLOUTS).glob("step_*.json"))
    # In descending order: killed in between, this leaves no gap.
    for step in sorted((step for step in steps if step is not None and step > last_step), reverse=True):
        (directory / layout.rollout_file(step)).unlink()


def begin_from_sealed(final: Path) -> None:
    """Make an unfinished run from one that is sealed as interrupted or failed.

    The sealed folder is only renamed (to `name.interrupted-1` and so on); killed after that, the next call takes
    the renamed folder. The new run's events begin with those of the sealed one and name it (`resumed_from_sealed`).
    Raises `RequestError` if the run is complete, is not sealed, or does not exist.
    """
    sealed = sealed_to_resume(final)
    partial = layout.partial_path(final)
    # Otherwise an earlier call was killed after the renaming, and the sealed folder already has its number.
    if sealed == final:
        sealed = final.with_name(f"{final.name}.interrupted-{max(_numbered(final), default=0) + 1}")
        with storage(sealed, "make"):
            final.rename(sealed)
    with atomic.new_folder(partial, "make") as staging:
        shutil.copytree(sealed / "train", staging / "train")
        # Copy only the newest and the best checkpoint, often gigabytes.
        run = RunRecord.open(sealed)
        newest, _ = run.checkpoints.latest_valid()
        if newest is not None:
            for step in {newest.step} if run.best is None else {newest.step, run.best.step}:
                folder = f"{layout.CHECKPOINTS}/{layout.checkpoint_folder(step)}"
                shutil.copytree(sealed / folder, staging / folder)
        jsonl.append(staging / layout.EVENTS, {"time": now(), "kind": "resumed_from_sealed", "name": sealed.name,
                                               "root": run.root})


def _cannot_go_on(path: Path, why: str) -> RecordError:
    return RecordError(f"{path}: {why}\ntry:      put a whole copy of the file back, or start a new run with "
                       "another --out")


def sealed_to_resume(final: Path) -> Path:
    """The sealed folder that a resumed run begins from; raises `RequestError` as `begin_from_sealed`."""
    if (final / layout.SEAL).is_file():
        if parse_seal((final / layout.SEAL).read_bytes())["status"] == "complete":
            raise RequestError(f"{final} is complete: there is nothing to resume",
                               "a run that was interrupted or failed", f"workings verify {quote(str(final))}, or "
                               "another --out for a new run")
        return final
    earlier = _numbered(final)
    if final.exists() or not earlier:
        raise RequestError(f"there is no run {final} to resume", "an unfinished or interrupted run of that name",
                           "leave --resume out to start it")
    return earlier[max(earlier)]


def _numbered(final: Path) -> dict[int, Path]:
    pattern = re.compile(re.escape(final.name) + r"\.interrupted-(\d+)")
    if not final.parent.is_dir():
        return {}
    return {int(match.group(1)): path for path in final.parent.iterdir() if (match := pattern.fullmatch(path.name))}
