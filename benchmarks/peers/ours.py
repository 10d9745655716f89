"""One of this project's engines as a contender: ``python -m benchmarks.peers.ours FOLDER SETTINGS``.

The product's own loop (`workings.training.loop.train`) over its own batches, a metrics line written for every step.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

from benchmarks.peers.meter import Meter, prepare

STARTED = time.time()
prepare()

from importlib.metadata import version  # noqa: E402

from benchmarks.peers.case import batches_by_position, read_shape, request_for  # noqa: E402
from workings.config.training import TrainingConfig  # noqa: E402
from workings.data.batches import Position  # noqa: E402
from workings.engines.registry import find_engine  # noqa: E402
from workings.training.loop import Progress, RunHooks, TrainingLoop  # noqa: E402
from workings.ways.parts.experience import RowExperience  # noqa: E402

PACKAGES = {"jax": ("jax", "jaxlib"), "torch": ("torch", "transformers")}


class MeterHooks(RunHooks):
    """Writes each step's line to a file and counts it; saves nothing and never stops."""

    def __init__(self, meter: Meter, file: TextIO) -> None:
        self._meter, self._file = meter, file

    def write_metrics(self, line: dict[str, Any]) -> None:
        """Writes and counts a step."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._meter.count(line["supervised_tokens"], line["tokens"], line["positions"])
        self._meter.losses.append(line["loss"])


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter, shape = Meter(STARTED), read_shape(folder)
    engine = find_engine(settings["engine"]).engine.open(request_for(shape, settings))
    batches = batches_by_position(folder, settings)
    first = engine.load(folder / "weights")
    place, seen = Position(), set()
    for _ in range(batches.batches_in_epoch(0)):  # every shape once, so that nothing compiles among the measured steps
        batch, place = batches.at(place)
        if batch.tokens.shape not in seen:
            seen.add(batch.tokens.shape)
            first, _ = engine.step(first, batch, 0.0)
            if not meter.first:
                meter.first_step()

    with tempfile.TemporaryFile("w") as file:
        loop = TrainingLoop(
            engine=engine, experience=RowExperience(batches), training=TrainingConfig(
                schedule="constant", steps=batches.batches_in_epoch(0), learning_rate=settings["learning_rate"]),
            observer=None, hooks=MeterHooks(meter, file), progress=Progress(step=0, position=Position()))
        meter.start()
        outcome = loop.run(lambda: first)
        meter.stop()
        meter.more["device_peak_bytes"] = engine.memory().peak_bytes
    assert outcome.status == "complete", outcome.reason
    meter.report({name: version(name) for name in PACKAGES[settings["engine"]]})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
