"""Where the quickstart's seconds go: compiled steps, everything else in the loop, record-keeping, and the whole of it.

    python -m benchmarks.overhead [--allow-load]

The first run of the quickstart, in this process, with clocks around the compiled step (until its result is there), the
wait for the batch and its digest (a thread makes them next to the step, and their time there is told, too), the step's
line in the record, the display, the first state, the looks at held-out data and the checkpoints (the last three are no
part of a step and reported apart); then `workings quickstart` whole, in a fresh process. Record-keeping is the wait for
batches and the time of lines. Exits with 3
without a result when others use more than half a core (``--allow-load`` marks the result), with 1 where the loop
spends 5 % or more outside the compiled step, record-keeping takes 1 % of a step or more, a program is compiled twice,
or the quickstart takes 3 minutes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.other_load import Load
from tools.result_file import write_result

LOOP_LIMIT, RECORD_LIMIT, QUICKSTART_LIMIT_SECONDS = 0.05, 0.01, 180.0


class Clocks:
    """Seconds and calls by name, added up by wrappers around methods."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.first = self.last = 0.0

    def add(self, name: str, started: float) -> None:
        """One more call, which ends now."""
        self.last = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + self.last - started
        self.calls[name] = self.calls.get(name, 0) + 1

    def around(self, owner: type, method: str, name: str) -> None:
        """Clock every call of a method."""
        real: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            self.first = self.first or started
            try:
                return real(*arguments, **named)
            finally:
                self.add(name, started)

        static = isinstance(owner.__dict__[method], staticmethod)
        setattr(owner, method, staticmethod(timed) if static else timed)


def watched(folder: Path) -> dict[str, Any]:
    """One run of the quickstart's recipe with clocks around its parts."""
    import jax

    from workings.config.load import load_recipe
    from workings.data.batches import Batches
    from workings.engines.jax.engine import JaxEngine
    from workings.models.batch import Batch
    from workings.record.checkpoints import CheckpointStore
    from workings.record.writer import RunWriter
    from workings.runs.train import train
    from workings.training.display import Display
    from workings.training.loop import TrainingLoop
    from workings.training.observer import HeldOutObserver
    from workings.ways.parts.experience import RowExperience

    jax.config.update("jax_enable_compilation_cache", False)  # nothing was compiled by an earlier run
    clocks, compiled = Clocks(), JaxEngine.compiled_step
    shapes: set[tuple[int, ...]] = set()
    engines: list[JaxEngine] = []

    def compiled_step(engine: JaxEngine, batch: Batch, *more: Any) -> Any:
        shapes.add(batch.tokens.shape)
        engines[:] = [engine]
        started = time.perf_counter()
        before = engine.compilations
        program = compiled(engine, batch, *more)
        if engine.compilations > before:
            clocks.add("compile" if clocks.calls.get("first_state") else "compile_before_the_loop", started)

        def run(*arguments: Any) -> Any:
            started = time.perf_counter()
            found = jax.block_until_ready(program(*arguments))
            clocks.add("compiled_step", started)
            return found

        return run if clocks.calls.get("first_state") else program

    JaxEngine.compiled_step = compiled_step  # type: ignore[method-assign]
    for owner, method, name in (
            (Batches, "at", "beside_batches"), (Batches, "digest", "beside_batch_digest"),
            (RowExperience, "next_batch", "wait_for_batch"), (RunWriter, "metric", "write_line"),
            (Display, "show", "display"), (HeldOutObserver, "evaluate", "looks"),
            (CheckpointStore, "save", "checkpoints"), (TrainingLoop, "run", "loop"),
            (JaxEngine, "step", "step"), (JaxEngine, "init", "first_state")):
        clocks.around(owner, method, name)
    train(load_recipe("quickstart"), folder / "run")
    seconds = clocks.seconds
    aside = sum(seconds.get(name, 0.0) for name in ("looks", "checkpoints", "compile", "first_state"))
    whole = seconds.pop("loop")
    stepping, inside = whole - aside, seconds["compiled_step"]
    record = seconds["wait_for_batch"] + seconds["write_line"]
    steps = clocks.calls["write_line"]
    return {
        "steps": steps, "loop_seconds": round(whole, 3),
        "seconds": {name: round(value, 3) for name, value in sorted(seconds.items())},
        "milliseconds_a_step": {name: round(seconds[name] / steps * 1e3, 3) for name in (
            "compiled_step", "step", "wait_for_batch", "write_line", "display", "beside_batches",
            "beside_batch_digest")},
        "share_outside_compiled_step": round(1 - inside / stepping, 4),
        "share_of_record_keeping": round(record / inside, 4),
        "programs_compiled": engines[0].compilations, "batch_shapes": len(shapes)}


def main(arguments: list[str]) -> int:
    """Measure, write the result file, print what it holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load = Load(allow=asked.allow_load)
    with tempfile.TemporaryDirectory() as name:
        others = load.check()
        values = watched(Path(name))
        load.check()
        started = time.perf_counter()
        command = [sys.executable, "-m", "workings", "quickstart", "--tiny", "--out", str(Path(name) / "quickstart")]
        subprocess.run(command, check=True, capture_output=True,
                       env=os.environ | {"WORKINGS_CACHE": str(Path(name) / "cache")})
        values["quickstart_seconds"] = round(time.perf_counter() - started, 1)
    write_result(packages=["jax", "jaxlib", "numpy"], values={
        "quotable": not load.passed_over, "cores_used_by_others": round(others, 2), **values,
        "limits": {"share_outside_compiled_step": LOOP_LIMIT, "share_of_record_keeping": RECORD_LIMIT,
                   "quickstart_seconds": QUICKSTART_LIMIT_SECONDS}})
    for key, value in values.items():
        print(f"{key}: {value}")
    return int(values["share_outside_compiled_step"] >= LOOP_LIMIT or values["share_of_record_keeping"] >= RECORD_LIMIT
               or values["programs_compiled"] > values["batch_shapes"]
               or values["quickstart_seconds"] >= QUICKSTART_LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
