"""The interface of an environment, and the seeds of its tasks."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from workings.record.digest import bytes_digest, file_digest
from workings.record.environment import installed_version

Row = Mapping[str, Any]
"""A task: a JSON object with an `id` and what the environment needs to begin."""
SEED_KEY, ROW_KEY = "environment_seed", "environment_row"
"""Keys of a prompt's record: the seed and the row that its environment begins with."""
ITEM_KEYS = ("id", "expected_answer", "section", "category", "difficulty", "cluster", "aliases", "tolerance", "history")
"""Keys of a row that have the same meaning in an item."""


class Step(NamedTuple):
    """An environment's reply to a turn of the model."""

    observation: str
    """The next text for the model; not used if the episode is over."""
    reward: float = 0.0
    """Reward of the model's turn."""
    done: bool = False
    """Whether the episode is over."""


class Environment(Protocol):
    """One episode; each episode is a new object. Replies depend only on the seed, the row and the model's texts.

    Two methods are optional. ``tasks(seed, count)`` makes so many rows with different ids, equal for equal seeds.
    ``close()`` is called after the episode.
    """

    def reset(self, seed: int, row: Row) -> str:
        """Begin the episode; returns the first text for the model."""

    def step(self, text: str) -> Step:
        """Reply to the model's text, which has no stop token. Not called after `Step.done`."""


def installed(distribution: str) -> str:
    """Name and version of a distribution, or that it is not installed."""
    version = installed_version(distribution)
    return f"{distribution} {version}" if version else f"{distribution}, not installed"


def source_of(module: str) -> str:
    """Name of a module and the digest of its source, submodules included; or that it is missing."""
    found = find_spec(module) if module else None
    if found is None or found.origin is None:
        return f"without {module}"
    origin = Path(found.origin)
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return f"{module} sha256:{bytes_digest(''.join(map(file_digest, files)).encode())}"


def task_seed(seed: int, name: str) -> int:
    """Seed (below 2**32) of a task's environment: a hash of the run's seed and the task's id."""
    return int(bytes_digest(f"environment/{seed}/{name}".encode())[:8], 16)
