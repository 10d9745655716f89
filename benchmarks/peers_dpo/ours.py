"""One of this project's engines as a contender: ``python -m benchmarks.peers_dpo.ours FOLDER SETTINGS``.

The product's own loop over its own batches of pairs, a metrics line written for every step.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.peers.meter import Meter, two_threads

STARTED = time.time()
two_threads()

from importlib.metadata import version  # noqa: E402

from benchmarks.peers.ours import PACKAGES, MeterHooks  # noqa: E402
from benchmarks.peers_dpo.case import MAX_LENGTH, PAIRS, RATE, read_pairs, request_of  # noqa: E402
from workings.config.data import DataConfig  # noqa: E402
from workings.data.batches import Batches, Position  # noqa: E402
from workings.engines.registry import find_engine  # noqa: E402
from workings.training.loop import Progress, TrainingLoop  # noqa: E402
from workings.training.schedule import Schedule  # noqa: E402
from workings.ways.parts.preference_experience import (  # noqa: E402
    PreferenceExperience,
    reference_log_probs_by_row,
    with_log_probs,
)


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter, pairs = Meter(STARTED), read_pairs(folder)
    engine: Any = find_engine(settings["engine"]).engine.open(request_of(folder))
    batches = Batches(pairs, seed=0, rows_per_micro_batch=2 * PAIRS, accumulation=1, data_config=DataConfig(
        traces="", max_length=MAX_LENGTH, buckets=tuple(settings["buckets"])))
    steps, first = batches.batches_in_epoch(0), engine.load(folder / "weights")
    known = dict.fromkeys(pairs.rows.ids, 0.0)
    place, seen = Position(), set()
    for _ in range(steps):  # every shape once, so that nothing compiles among the measured steps
        (batch, after), place_of_batch = batches.at(place), place
        place = after
        if batch.tokens.shape not in seen:
            seen.add(batch.tokens.shape)
            engine.log_probs(first, batch)
            first, _ = engine.step(first, with_log_probs(batch, batches.row_ids(place_of_batch), known), 0.0)
            if not meter.first:
                meter.first_step()
    started = time.perf_counter()
    log_probs = reference_log_probs_by_row(engine, first, batches, steps)
    meter.more["reference_seconds"] = time.perf_counter() - started
    with tempfile.TemporaryFile("w") as file:
        loop = TrainingLoop(
            engine=engine, experience=PreferenceExperience(
                batches, compute=lambda state: log_probs, load=lambda: log_probs, save=lambda log_probs: None),
            schedule=Schedule(kind="constant", steps=steps, peak=RATE, warmup_steps=0, final_share=1.0),
            observer=None, hooks=MeterHooks(meter, file), progress=Progress(step=0, position=Position()))
        meter.start()
        outcome = loop.run(lambda: first)
        meter.stop()
    assert outcome.status == "complete", outcome.reason
    meter.more["mean_loss"] = fmean(meter.losses)
    meter.report({name: version(name) for name in PACKAGES[settings["engine"]]})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
