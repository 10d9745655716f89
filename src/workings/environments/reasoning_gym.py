"""Tasks of the library `reasoning-gym`: a question, and one answer that the library's own verifier scores."""

import json
from collections.abc import Iterator
from typing import Any

from workings.environments.base import Row, Step, installed
from workings.errors import RequestError
from workings.hints import pip_install


class ReasoningGym:
    """One task of the library; an episode has one turn."""

    def __init__(self, task: str, **config: Any) -> None:
        """A task by its name in the library, with the keys of its configuration.

        Raises `RequestError` if the library is not installed, or has no such task.
        """
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
        """What decides the scores: the library's version."""
        del task
        return installed("reasoning-gym")

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Its questions with their whole entries, as text because they may hold nulls."""
        # Without a seed the library takes a random one.
        made = self._library.create_dataset(self._task, seed=seed, size=count, **self._config)
        for number, entry in enumerate(made):
            answer = entry["answer"]
            yield {"id": f"{self._task}-{number:06d}", "entry": json.dumps(entry),
                   "expected_answer": "not given" if answer is None or not str(answer).strip() else str(answer)}

    def reset(self, seed: int, row: Row) -> str:
        """The question; nothing is random."""
        del seed
        self._entry: dict[str, Any] = json.loads(row["entry"])
        return str(self._entry["question"])

    def step(self, text: str) -> Step:
        """The library's score of the text without the reasoning before it; the episode ends."""
        answer = text.rpartition("</think>")[2].rpartition("<answer>")[2].partition("</answer>")[0].strip()
        score = self._library.get_score_answer_fn(self._task)(answer, self._entry)
        return Step("", float(score), done=True)
