"""The evaluation unit while it is written: ``<out>.partial`` until it is sealed, continued where a run was killed."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record import atomic
from workings.record.canonical import loads, record_line
from workings.record.digest import json_digest
from workings.record.jsonl import Appender, cut_torn_line
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SAMPLES, SEAL, partial_path
from workings.record.lock import DirectoryLock
from workings.record.seal import seal_unit


class EvaluationUnit:
    """One unit being written. Use as a context manager: leaving it keeps what was written, for the next attempt."""

    def __init__(self, out: Path, config: dict[str, Any]) -> None:
        """Start the unit, or continue one that was interrupted.

        Raises:
            RequestError: ``out`` exists, or an interrupted evaluation there was asked for something else.
        """
        if out.exists():
            raise RequestError(f"--out {out}, which exists", "a new directory; evaluations are never overwritten",
                               f"--out {out}-2")
        self.out, self.partial, self._config = out, partial_path(out), config
        out.parent.mkdir(parents=True, exist_ok=True)
        self.partial.mkdir(exist_ok=True)
        self._lock = DirectoryLock(self.partial)
        self._check_config()
        cut_torn_line(self.predictions)
        self._appender = Appender(self.predictions)

    @property
    def predictions(self) -> Path:
        """Where the predictions stand."""
        return self.partial / PREDICTIONS

    def __enter__(self) -> "EvaluationUnit":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._appender.close()
        self._lock.release()

    def finished_chunks(self, chunks: Sequence[int], samples: int = 1) -> int:
        """How many chunks (of these numbers of items) stand in the file completely; the rest of it is cut off.

        A chunk is what is generated together. It is never continued in its middle, because the numbers of a batch
        may depend on its rows, and a continued evaluation has to end the same. The file's last item is whole only if
        it has all its ``samples``: writing may have stopped between two of its lines.
        """
        ends = _item_ends(self.predictions, samples)
        done = kept_items = 0
        for size in chunks:
            if kept_items + size > len(ends):
                break
            done, kept_items = done + 1, kept_items + size
        os.truncate(self.predictions, ends[kept_items - 1] if kept_items else 0)
        return done

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Add lines of one chunk and wait until they are on the disk."""
        data = b"".join(record_line(line, PREDICTIONS) for line in lines)
        self._appender.append_bytes(data)
        self._appender.sync()

    def seal(self, summary: dict[str, Any], samples: str, made_from: str | None) -> str:
        """Write the summary and the samples, seal, and move the unit to its place. Returns the root digest."""
        atomic.write_json(self.partial / EVALUATION_SUMMARY, summary)
        atomic.write_text(self.partial / SAMPLES, samples)
        if (self.partial / SEAL).exists():  # killed between sealing and renaming
            (self.partial / SEAL).unlink()
        root = seal_unit(self.partial, "eval", "complete", made_from)
        self.partial.rename(self.out)
        atomic.sync_directory(self.out.parent)
        return root

    def _check_config(self) -> None:
        path = self.partial / EVALUATION_CONFIG
        if not path.exists():
            atomic.write_json(path, self._config)
            return
        before = loads(path.read_bytes())
        if json_digest(before) != json_digest(self._config):
            self._lock.release()
            raise RequestError(f"--out {self.out}, where an interrupted evaluation was asked for something else: "
                               f"{', '.join(_differences(before, self._config))}",
                               "the same request, to continue it, or another --out", f"--out {self.out}-2")


def _item_ends(path: Path, samples: int) -> list[int]:
    """Byte offset behind the last line of every item that is whole."""
    ends: list[int] = []
    name, lines = "", 0
    for line_id, end in _ids(path):
        if line_id == name and ends:
            ends[-1], lines = end, lines + 1
        else:
            ends.append(end)
            lines = 1
        name = line_id
    return ends[:-1] if ends and lines < samples else ends


def _ids(path: Path) -> Iterator[tuple[str, int]]:
    offset = 0
    with path.open("rb") as file:
        for line in file:
            offset += len(line)
            record = loads(line)
            if not isinstance(record, dict) or "id" not in record:
                raise RecordError(f"{path}: a line is none of ours; remove {path.parent} and start again")
            yield str(record["id"]), offset


def _differences(before: Any, now: dict[str, Any]) -> list[str]:
    old = before if isinstance(before, dict) else {}
    return sorted(key for key in {*old, *now} if old.get(key) != now.get(key))
