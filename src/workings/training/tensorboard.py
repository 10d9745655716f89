"""TensorBoard files of a run, written beside the runs while it trains. What counts is the record's `metrics.jsonl`."""

from pathlib import Path
from typing import Any

FOLDER = "tensorboard"
"""Folder beside the runs; a sub-folder each. Outside of every seal, because it can be made again from the record."""
SCALARS = {"loss": "train/loss", "evaluation_loss": "evaluation/loss", "learning_rate": "train/learning_rate",
           "grad_norm": "train/grad_norm", "share_of_weights_changed": "train/share_of_weights_changed",
           "memory_bytes": "device/memory_bytes"}
"""Key of a metrics line and its tag."""


class Scalars:
    """Writes scalars of metrics lines. Without tensorboardX it writes nothing and `place` says so."""

    def __init__(self, run: Path, after_step: int = 0) -> None:
        """Open the files of a run.

        Args:
            run: the final run directory; files go to ``tensorboard/NAME`` beside it.
            after_step: steps after this one that an earlier attempt wrote are hidden (a resumed run takes them again).
        """
        self.place = f"{run.parent / FOLDER / run.name}"
        """Where the files are, or why there are none; for people."""
        self._writer: Any = None
        try:
            from tensorboardX import SummaryWriter
        except ModuleNotFoundError:
            self.place = "none: tensorboardX is not installed (the extra `track` has it)"
            return
        self._writer = SummaryWriter(str(run.parent / FOLDER / run.name), purge_step=after_step + 1)

    def line(self, metric: dict[str, Any]) -> None:
        """Add one metrics line."""
        if self._writer is None:
            return
        for key, tag in SCALARS.items():
            if isinstance(value := metric.get(key), int | float):
                self._writer.add_scalar(tag, value, metric["step"])
        if metric["seconds"] > 0:
            self._writer.add_scalar("train/tokens_per_second", metric["tokens"] / metric["seconds"], metric["step"])

    def close(self) -> None:
        """Write out what is held; harmless when repeated."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
