"""TensorBoard files of a run, written beside the runs while it trains. What counts is the record's `metrics.jsonl`.

Events are written one by one by the training thread itself: writers that hand them to a thread let the training wait
forever once that thread has died of a full disk.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "tensorboard"
"""Folder beside the runs; a sub-folder each. Outside of every seal, because it can be made again from the record."""
SCALARS = {"loss": "train/loss", "evaluation_loss": "evaluation/loss", "learning_rate": "train/learning_rate",
           "grad_norm": "train/grad_norm", "share_of_weights_changed": "train/share_of_weights_changed",
           "memory_bytes": "device/memory_bytes"}
"""Key of a metrics line and its tag."""
FLUSH_SECONDS = 5.0


class Scalars:
    """Writes scalars of metrics lines; what goes wrong with these files never touches the training."""

    def __init__(self, run: Path, say: Callable[[str], None], after_step: int = 0) -> None:
        """Open the files of a run.

        Args:
            run: the final run directory; files go to ``tensorboard/NAME`` beside it.
            say: takes a line that says where the files are, or why there are none.
            after_step: steps after this one that an earlier attempt wrote are hidden (a resumed run takes them again).
        """
        self._say = say
        self._file: Any = None
        self._flushed = time.monotonic()
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ModuleNotFoundError:
            say("curves     no files for TensorBoard: the package is not installed (the extra `track` has it)")
            return
        folder = run.parent / FOLDER / run.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A name that no earlier attempt can have: its files stay beside this one.
            self._file = RecordWriter((folder / f"events.out.tfevents.{time.time_ns()}").open("xb"))
        except OSError as error:
            say(f"curves     no files for TensorBoard: {folder}: {error.strerror}")
            return
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # TensorBoard hides what other files of the run hold from this step on.
        self._write(Event(wall_time=time.time(), step=after_step + 1, session_log=SessionLog(status=SessionLog.START)))
        say(f"curves     {folder} (TensorBoard)")

    def line(self, metric: dict[str, Any]) -> None:
        """Add one metrics line."""
        if self._file is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for key, tag in SCALARS.items()
                  # What a device does not report is an object that says why, and has no point in a curve.
                  if isinstance(value := metric.get(key), int | float)]
        if metric["seconds"] > 0:
            values.append(Summary.Value(tag="train/tokens_per_second",
                                        simple_value=metric["tokens"] / metric["seconds"]))
        self._write(Event(wall_time=time.time(), step=metric["step"], summary=Summary(value=values)))

    def close(self) -> None:
        """Write out what is held; harmless when repeated."""
        if self._file is not None:
            # Forgotten first: closing flushes and may fail, and a second close then does nothing.
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                self._say(f"tensorboard files are not whole: {error.strerror}")

    def _write(self, event: Any) -> None:
        if self._file is None:  # an earlier event did not fit on the disk
            return
        try:
            self._file.write(event.SerializeToString())
            # Often enough for somebody who watches, and not one system call a step.
            if time.monotonic() - self._flushed > FLUSH_SECONDS:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            self._say(f"tensorboard files end here: {error.strerror}")
            self.close()
