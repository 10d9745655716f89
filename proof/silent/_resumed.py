"""One run that was stopped and resumed, next to one that was not: several cases look at it."""

from functools import cache
from typing import Any, NamedTuple

from proof.silent._harness import short_run, temporary
from tests.runs.runs_helpers import last_weights, lines_of

RUN = {"training.steps": 6, "training.schedule": "cosine", "training.warmup_steps": 2, "training.final_share": 0.1,
       "checkpoint.every_steps": 2}


class Resumed(NamedTuple):
    """Metrics lines and last weights of both."""

    straight: list[dict[str, Any]]
    resumed: list[dict[str, Any]]
    same_weights: bool
    stopped_at: int


@cache
def resumed(engine: str) -> Resumed:
    """Six steps in one piece; and stopped after three, then resumed."""
    with temporary() as folder:
        straight, stopped = folder / "straight", folder / "stopped"
        short_run(engine, straight, RUN)
        first = short_run(engine, stopped, RUN, callbacks=[lambda line: line["step"] < 3])
        assert first.status == "interrupted", first.status
        step = len(lines_of(stopped))
        second = short_run(engine, stopped, RUN, resume=True)
        assert second.status == "complete", second.status
        return Resumed(lines_of(straight), lines_of(stopped), last_weights(straight) == last_weights(stopped), step)
