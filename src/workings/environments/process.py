"""An environment in a separate process, seen from outside."""

from collections.abc import Sequence
from typing import Any

from workings.environments.base import ITEM_KEYS, ROW_KEY, SEED_KEY, Row, Step, task_seed
from workings.environments.settings import EnvironmentSettings
from workings.errors import RewardError
from workings.scoring.worker_pool import NoAnswer, Worker


class EnvironmentProcess(Worker):
    """Plays episodes in a child process with the limits and the guard of `workings.scoring.rewards.RewardProcess`.

    Use as a context manager. Raises `RequestError` if the environment cannot be made.
    """

    module = "workings.environments.worker"

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        super().__init__((settings, settings.version), "environment", settings.config.name)

    def __del__(self) -> None:
        # A replay has no context: the process ends with its owner.
        if getattr(self, "child", None) is not None:
            self._stop()

    def tasks(self, seed: int, count: int) -> list[dict[str, Any]]:
        """Rows that the environment makes. Raises `RewardError` as `step` does."""
        return list(self._ask("tasks", seed, count))

    def prompts(self, seed: int, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The prompts of some tasks, as `workings.scoring.items` reads them, by the run's seed. Raises as `step`."""
        beginnings = [(task_seed(seed, str(row["id"])), dict(row)) for row in rows]
        return [{"expected_answer": "not given", **{key: row[key] for key in ITEM_KEYS if key in row}, "prompt": text,
                 SEED_KEY: begun, ROW_KEY: row}
                for (begun, row), text in zip(beginnings, self._ask("show", beginnings), strict=True)]

    def reset(self, beginnings: Sequence[tuple[int, Row]]) -> list[str]:
        """Begins an episode with each seed and row, and ends all earlier ones; what each shows. Raises as `step`."""
        return list(self._ask("reset", [(seed, dict(row)) for seed, row in beginnings]))

    def step(self, turns: Sequence[tuple[int, str]]) -> list[Step]:
        """The replies to turns of some episodes, by their index in `reset`.

        Raises `RewardError` if the environment raised, took too long, ended its process, or gave back something else.
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
