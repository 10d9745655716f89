"""The learning rate in the log is that of another step than the one that was taken.

Reported: transformers#35942.
"""

from proof.silent._harness import Found, right_if, short_run, temporary
from tests.runs.runs_helpers import lines_of
from workings.engines.registry import find_engine


def check(engine: str) -> Found:
    """The rates that the engine is given are those of the metrics lines."""
    used: list[float] = []
    cls = find_engine(engine).engine
    step = cls.step

    def watched(self: object, state: object, batch: object, rate: float) -> object:
        used.append(rate)
        return step(self, state, batch, rate)

    with temporary() as folder:
        try:
            cls.step = watched
            short_run(engine, folder / "run", {"training.steps": 4, "training.schedule": "cosine",
                                               "training.final_share": 0.0})
        finally:
            cls.step = step
        logged = [line["learning_rate"] for line in lines_of(folder / "run")]
    return right_if(used == logged and used[0] > used[1] > used[2], f"used and logged: {', '.join(map(str, logged))}")
