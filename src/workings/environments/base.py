"""What an environment is, and how the seeds of its tasks follow from that of the run."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Protocol, runtime_checkable

from workings.record.digest import bytes_digest

Row = Mapping[str, Any]
"""A task: a JSON object with an id. `prompt` and `expected_answer` are those of an item."""
SEED_KEY, ROW_KEY = "environment_seed", "environment_row"
"""Keys of a prompt's record: the seed and the row that its environment begins with."""
_ITEM_KEYS = ("id", "expected_answer", "section", "category", "difficulty", "cluster", "aliases", "tolerance",
              "history")


class Step(NamedTuple):
    """What an environment replies to a turn of the model."""

    observation: str
    """The next text for the model; unused if the episode is over."""
    reward: float = 0.0
    """What this turn is worth."""
    done: bool = False
    """Whether the episode is over."""


class Environment(Protocol):
    """One episode, a new object each time. Its replies depend only on seed, row and the model's texts."""

    def reset(self, seed: int, row: Row) -> str:
        """The task as the model is shown it."""
        ...

    def step(self, text: str) -> Step:
        """The reply to the model's text, without its stop token. Not called after `Step.done`."""
        ...


@runtime_checkable
class TaskMaker(Protocol):
    """Optional: an environment that makes its tasks itself."""

    def tasks(self, seed: int, count: int) -> Iterable[dict[str, Any]]:
        """This number of rows with different ids, the same for the same seed. A row only needs an ``id``."""
        ...


def installed(distribution: str) -> str:
    """Name and version of a distribution, or that it is not installed, which its adapter refuses."""
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution}, not installed"


def task_seed(seed: int, name: str) -> int:
    """Seed (below 2**32) of the environment for a task: a hash of the run's seed and the task's id."""
    return int(bytes_digest(f"environment/{seed}/{name}".encode())[:8], 16)


def beginning(seed: int, row: Row) -> tuple[int, dict[str, Any]]:
    """Seed and row that the environment of a task begins with; ``seed``: of the run."""
    return task_seed(seed, str(row["id"])), dict(row)


def as_prompt(seed: int, row: Row, shown: str) -> dict[str, Any]:
    """The record of a task's prompt, as `workings.scoring.items` reads it.

    Args:
        seed: that its environment begins with.
        row: likewise.
        shown: what the environment then shows.
    """
    return {"expected_answer": "not given", **{key: row[key] for key in _ITEM_KEYS if key in row}, "prompt": shown,
            SEED_KEY: seed, ROW_KEY: dict(row)}
