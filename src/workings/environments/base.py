"""What an environment is, and how the seeds of its tasks follow from that of the run."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from workings.record.digest import bytes_digest, file_digest

Row = Mapping[str, Any]
"""A task: a JSON object with an id. `prompt` and `expected_answer` are those of an item."""
SEED_KEY, ROW_KEY = "environment_seed", "environment_row"
"""Keys of a prompt's record: the seed and the row that its environment begins with."""
ITEM_KEYS = ("id", "expected_answer", "section", "category", "difficulty", "cluster", "aliases", "tolerance", "history")
"""Keys of a row that are those of an item."""


class Step(NamedTuple):
    """What an environment replies to a turn of the model."""

    observation: str
    """The next text for the model; unused if the episode is over."""
    reward: float = 0.0
    """What this turn is worth."""
    done: bool = False
    """Whether the episode is over."""


class Environment(Protocol):
    """One episode, a new object each time. Its replies depend only on seed, row and the model's texts.

    It may have two further methods. ``tasks(seed, count)`` makes this number of rows with different ids, the same for
    the same seed; a row only needs an ``id``. ``close()`` ends the episode, before others begin.
    """

    def reset(self, seed: int, row: Row) -> str:
        """The task as the model is shown it."""
        ...

    def step(self, text: str) -> Step:
        """The reply to the model's text, without its stop token. Not called after `Step.done`."""
        ...


def installed(distribution: str) -> str:
    """Name and version of a distribution, or that it is not installed, which its adapter refuses."""
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution}, not installed"


def source_of(module: str) -> str:
    """Name of an importable module and the digest of its source with that of its submodules, or that it is missing."""
    found = find_spec(module) if module else None
    if found is None or found.origin is None:
        return f"without {module}"
    origin = Path(found.origin)
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return f"{module} sha256:{bytes_digest(''.join(map(file_digest, files)).encode())}"


def task_seed(seed: int, name: str) -> int:
    """Seed (below 2**32) of the environment for a task: a hash of the run's seed and the task's id."""
    return int(bytes_digest(f"environment/{seed}/{name}".encode())[:8], 16)
