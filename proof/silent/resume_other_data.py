"""A run is resumed with other data or another length, and trains on nothing or on rows that it had.

Reported: LlamaFactory#7085, LlamaFactory#9325.
"""

from proof.silent._harness import Found, refused, short_run, temporary
from proof.silent._resumed import RUN


def check(engine: str) -> Found:
    """Another number of steps is refused with both values."""
    with temporary() as folder:
        short_run(engine, folder / "run", RUN, callbacks=[lambda line: line["step"] < 3])
        return refused(lambda: short_run(engine, folder / "run", RUN | {"training.steps": 9}, resume=True),
                       "training.steps", "9", "6")
