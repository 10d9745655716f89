"""Plays an environment in a child process, whose side is `workings.environments.worker`."""

from collections.abc import Sequence
from typing import Any

from workings.environments.base import ITEM_KEYS, ROW_KEY, SEED_KEY, Row, Step, task_seed
from workings.environments.settings import EnvironmentSettings
from workings.errors import RewardError
from workings.scoring.worker_pool import NoAnswer, Worker


class EnvironmentProcess(Worker):
    """A child process that plays episodes; a context manager. Raises `RequestError` if it cannot begin."""

    module = "workings.environments.worker"

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        super().__init__((settings, settings.version), "environment", settings.config.name)

    def __del__(self) -> None:
        if getattr(self, "child", None) is not None:
            self._stop()

    def tasks(self, seed: int, count: int) -> list[dict[str, Any]]:
        """Rows that the environment makes. Raises as `step`."""
        return list(self._ask("tasks", seed, count))

    def prompts(self, seed: int, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The tasks as JSON objects of items; ``seed`` is the run's. Raises as `step`."""
        beginnings = [(task_seed(seed, str(row["id"])), dict(row)) for row in rows]
        prompts = []
        for (own_seed, row), text in zip(beginnings, self._ask("show", beginnings), strict=True):
            item = {key: row[key] for key in ITEM_KEYS if key in row}
            prompts.append({"expected_answer": "not given", **item, "prompt": text, SEED_KEY: own_seed, ROW_KEY: row})
        return prompts

    def reset(self, beginnings: Sequence[tuple[int, Row]]) -> list[str]:
        """End all episodes, and begin one for each seed and row; returns their first texts. Raises as `step`."""
        return list(self._ask("reset", [(seed, dict(row)) for seed, row in beginnings]))

    def step(self, turns: Sequence[tuple[int, str]]) -> list[Step]:
        """The replies to turns: the index of an episode in `reset`, and the model's text.

        Raises `RewardError` if the environment fails, takes too long, or returns something else.
        """
        return [Step(*values) for values in self._ask("step", list(turns))]

    def _ask(self, verb: str, *arguments: Any) -> Any:
        try:
            answer = next(self._answers((verb, arguments), [self._settings.config.seconds]))
        except NoAnswer as error:
            raise RewardError(f"environment {self._settings.name}, {verb}: {error} (its limit is the key "
                              "`environment.seconds`)") from None
        if "problem" in answer:
            self._stop()
            raise RewardError(f"environment {self._settings.name}, {verb}: {answer['problem']}")
        return answer["values"]
