"""Tasks of the library `reasoning-gym`: a question, and one answer that the library scores."""

import json
from collections.abc import Iterator
from typing import Any

from workings.environments.base import Row, Step, installed
from workings.errors import RequestError
from workings.hints import pip_install


class ReasoningGym:
    """One task of the library; an episode has one turn."""

    def __init__(self, task: str, **config: Any) -> None:
        """A task of the library with its configuration. Raises `RequestError` if it does not exist here."""
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError:
            raise RequestError(f"environment: reasoning-gym:{task} needs reasoning-gym",
                               "the library", pip_install("tasks")) from None
        if task not in DATASETS:
            raise RequestError(f"environment: reasoning-gym has no task {task}",
                               f"one of its tasks: {', '.join(sorted(DATASETS))}")
        self._library, self._task, self._config = reasoning_gym, task, config

    @staticmethod
    def version(task: str) -> str:
        """Version of the library, which decides the scores."""
        return installed("reasoning-gym")

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """The library's entries, as text because they may hold nulls."""
        entries = self._library.create_dataset(self._task, seed=seed, size=count, **self._config)
        for number, entry in enumerate(entries):
            answer = "" if entry["answer"] is None else str(entry["answer"])
            yield {"id": f"{self._task}-{number:06d}", "entry": json.dumps(entry),
                   "expected_answer": answer if answer.strip() else "not given"}

    def reset(self, seed: int, row: Row) -> str:
        """The question; nothing is random."""
        self._entry: dict[str, Any] = json.loads(row["entry"])
        return str(self._entry["question"])

    def step(self, text: str) -> Step:
        """The library's score of the answer, which follows the reasoning; the episode ends."""
        answer = text.rpartition("</think>")[2].rpartition("<answer>")[2].partition("</answer>")[0].strip()
        score = self._library.get_score_answer_fn(self._task)(answer, self._entry)
        return Step("", float(score), done=True)
