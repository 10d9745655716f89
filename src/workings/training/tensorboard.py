"""TensorBoard files of a run, written next to the runs during training. The record's `metrics.jsonl` is authoritative.

Events are written one by one by the training thread or its background thread: writers that hand them to a thread of
their own let the training wait forever once that thread has died of a full disk.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workings.record.values import leaves
from workings.training.observer import LoggedSample

FOLDER = "tensorboard"
"""Folder next to the runs; a sub-folder each. Outside of every seal, because it can be made again from the record."""
SCALARS = {"loss": "train/loss", "evaluation_loss": "evaluation/loss", "learning_rate": "train/learning_rate",
           "grad_norm": "train/grad_norm", "share_of_weights_changed": "train/share_of_weights_changed",
           "memory_bytes": "device/memory_bytes"}
"""Key of a metrics line and its tag."""
FLUSH_SECONDS = 5.0
QUESTION_CHARS = 80
"""Characters of a question in the tag of its samples."""


class TensorBoardFiles:
    """Writes curves, samples and the recipe; errors with these files never affect the training."""

    def __init__(self, run: Path, say: Callable[[str], None], after_step: int = 0) -> None:
        """Opens the files of a run.

        Args:
            run: the final run directory; files go to ``tensorboard/NAME`` next to it.
            say: prints a line: where the files are, or why there are no files.
            after_step: steps after this one that an earlier attempt wrote are hidden (a resumed run takes them again).
        """
        self._say, self._name = say, run.name
        self._file: Any = None
        self._flushed = time.monotonic()
        # Curves come from the background thread, samples from the training's; an error closes within a write.
        self._writing = threading.RLock()
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ModuleNotFoundError:
            say("curves     no files for TensorBoard: the package is not installed (the extra `track` has it)")
            return
        folder = run.parent / FOLDER / run.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A name that no earlier attempt can have: its files stay next to this one.
            self._file = RecordWriter((folder / f"events.out.tfevents.{time.time_ns()}").open("xb"))
        except OSError as error:
            say(f"curves     no files for TensorBoard: {folder}: {error.strerror}")
            return
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # TensorBoard hides what other files of the run hold from this step on.
        self._write(Event(wall_time=time.time(), step=after_step + 1, session_log=SessionLog(status=SessionLog.START)))
        say(f"curves     {folder} (TensorBoard)")

    def line(self, metric: dict[str, Any]) -> None:
        """Adds one metrics line."""
        if self._file is None:
            return
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for key, tag in SCALARS.items()
                  # What a device does not report is an object that says why, and has no point in a curve.
                  if isinstance(value := metric.get(key), int | float)]
        # A clock of low resolution may measure 0.
        if metric["seconds"] > 0:
            values.append(Summary.Value(tag="train/tokens_per_second",
                                        simple_value=metric["tokens"] / metric["seconds"]))
        self._add(metric["step"], Summary(value=values))

    def recipe(self, text: str, values: Mapping[str, Any]) -> None:
        """Adds the recipe: as it is written, under TEXT, and its resolved keys under HPARAMS."""
        if self._file is None:
            return
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        self._text("recipe", 0, text)
        keys = {key: value if isinstance(value, bool | int | float | str) else str(value)
                for key, value in leaves(values)}
        # Named after the run: otherwise two runs of one recipe would be one trial.
        self._add(0, hparams_pb(keys, trial_id=self._name))

    def sample(self, sample: LoggedSample) -> None:
        """Adds a model's answer after a step, under TEXT: a page per question with a slider over the steps."""
        if self._file is not None:
            self._text(f"samples/{sample.prompt[:QUESTION_CHARS]}", sample.step,
                       f"{sample.text}\n\n(ended by {sample.finish_reason})")

    def close(self) -> None:
        """Flushes and closes the file; harmless when repeated."""
        if self._file is not None:
            # Forgotten first: closing flushes and may fail, and a second close then does nothing.
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                self._say(f"tensorboard files are not whole: {error.strerror}")

    def _text(self, tag: str, step: int, text: str) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        # TEXT reads Markdown. Indented, any text is code there and keeps its lines.
        block = "\n".join(f"    {line}" for line in text.split("\n"))
        self._add(step, Summary(value=[Summary.Value(tag=tag, tensor=make_tensor_proto([block.encode()]),
                                                     metadata=create_summary_metadata(tag, ""))]))

    def _add(self, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._write(Event(wall_time=time.time(), step=step, summary=summary))

    def _write(self, event: Any) -> None:
        with self._writing:
            if self._file is None:  # an earlier event did not fit on the disk
                return
            try:
                self._file.write(event.SerializeToString())
                # Often enough for someone who watches, and not one system call a step.
                if time.monotonic() - self._flushed > FLUSH_SECONDS:
                    self._file.flush()
                    self._flushed = time.monotonic()
            except OSError as error:
                self._say(f"tensorboard files end here: {error.strerror}")
                self.close()
