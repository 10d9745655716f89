"""The child process of `workings.environments.process`: it plays episodes and answers requests about them."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from workings.environments.base import Environment, Step
from workings.environments.settings import EnvironmentSettings
from workings.scoring.reward_worker import refuse
from workings.scoring.scorers import run_file
from workings.scoring.worker import Answer, error_text, limit_memory, loading, serve


class _Player:
    """Episodes that are played together; each public method answers the requests of its name."""

    def __init__(self, make: Callable[[], Environment]) -> None:
        self._make = make
        self._episodes: list[Environment] = []

    def tasks(self, seed: int, count: int) -> list[dict[str, Any]]:
        make_tasks = getattr(self._make(), "tasks", None)
        if make_tasks is None:
            raise TypeError("it makes no tasks (a method tasks(seed, count)), so that data.traces must be a file")
        # Through JSON, so that the recorded row is the same.
        rows = json.loads(json.dumps([dict(row) for row in make_tasks(seed, count)]))
        if len(rows) != count or any(not isinstance(row.get("id"), str) for row in rows):
            raise ValueError(f"tasks(seed, {count}) gave {len(rows)} rows; each needs an id")
        return list(rows)

    def show(self, beginnings: list[tuple[int, dict[str, Any]]]) -> list[str]:
        # One at a time, because a server may allow few sessions.
        return [text for beginning in beginnings for text in self.reset([beginning])]

    def reset(self, beginnings: list[tuple[int, dict[str, Any]]]) -> list[str]:
        for episode in self._episodes:
            getattr(episode, "close", lambda: None)()
        self._episodes = [self._make() for _ in beginnings]
        # `Any`: a user's class may return anything.
        shown: list[Any] = [episode.reset(seed, row)
                            for episode, (seed, row) in zip(self._episodes, beginnings, strict=True)]
        if any(not isinstance(text, str) or not text for text in shown):
            raise TypeError("reset(seed, row) must return a text")
        return shown

    def step(self, turns: list[tuple[int, str]]) -> list[Step]:
        return [_checked(self._episodes[number].step(text)) for number, text in turns]


def _plays(job: tuple[EnvironmentSettings, str]) -> Callable[[Any], Iterator[Answer]]:
    """A function that answers requests: the name of a method of `_Player`, and arguments. Raises `RequestError`."""
    settings, version = job
    limit_memory(int(settings.config.memory_gib * 1024**3))
    if not settings.config.server:  # its adapter runs no foreign code, and needs a connection
        sys.addaudithook(refuse)
    with loading(settings.name, "an environment that can be made, with options that it takes"):
        make: Callable[[], Environment]
        if settings.config.file:
            environment = run_file("environment", settings.path, "class", settings.config.name.rpartition(":")[2],
                                   unchanged=settings.version == version)
            make = partial(environment, **settings.config.options)
        else:
            make = settings.make
        # A first one, because wrong options show only here.
        make()
    player = _Player(make)

    def answers(request: tuple[str, tuple[Any, ...]]) -> Iterator[Answer]:
        verb, arguments = request
        try:
            yield {"values": getattr(player, verb)(*arguments)}
        except BaseException as error:  # noqa: BLE001 - environments are other people's code
            yield {"problem": error_text(error)}
    return answers


def _checked(given: Any) -> Step:
    """A reply with a finite reward. Raises ``TypeError`` for anything else."""
    observation, reward, done = given
    is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not isinstance(observation, str) or not is_number or not math.isfinite(reward):
        raise TypeError(f"step(text) must return (text, finite number, whether it is over), not {given!r:.80}")
    return Step(observation, float(reward), bool(done))


if __name__ == "__main__":
    serve(_plays)
