"""Problems of the library `reasoning-gym`: questions with known answers, for rewards and evaluation.

Most of its tasks give no worked solution; their traces have no steps. Some have answers that only the library itself
can judge, such as a board or a plan: a reward of your own can call its `score_answer`.
"""

from itertools import islice
from typing import Any

from workings.data.generators.base import ItemRecord, as_item
from workings.data.importing.completion import split_any
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.hints import pip_install

_DRAWN = 4
"""Attempts per problem before a task counts as exhausted: small tasks repeat themselves."""


def make(task: str, n_traces: int, n_items: int, seed: int) -> tuple[list[Trace], list[ItemRecord]]:
    """Traces and items of a task; no question is in both.

    Raises:
        RequestError: the library is not installed, has no such task, or the task has fewer problems.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise RequestError(f"data make knows {task} only with the library `reasoning-gym`",
                           "addition, unit_conversion, or one of the tasks of that library",
                           pip_install("tasks")) from None
    if task not in DATASETS:
        raise RequestError(f"data make does not know {task}",
                           f"one of addition, unit_conversion, {', '.join(sorted(DATASETS))}", "workings data list")
    count = n_traces + n_items
    if count < 1:
        raise RequestError(f"{n_traces} traces and {n_items} items cannot be made", "at least one of either")
    found: dict[str, dict[str, Any]] = {}
    for entry in islice(reasoning_gym.create_dataset(task, size=_DRAWN * count, seed=seed), _DRAWN * count):
        if entry["answer"] is not None and len(found) < count:
            found.setdefault(entry["question"], entry)
    if len(found) < count:
        raise RequestError(f"{task} gave {len(found)} different problems with an answer, but {count} were requested",
                           "at most that number", "a smaller --n or --items")
    source = f"reasoning-gym:{task} version {reasoning_gym.__version__} seed {seed}"
    made = [Trace(id=f"{task}-{number:06d}", prompt=question, answer=str(entry["answer"]), section="core",
                  steps=split_any(entry["metadata"].get("answer_cot", ""))[0], category=task, source=source,
                  licence="Apache-2.0") for number, (question, entry) in enumerate(found.items())]
    return made[n_items:], list(map(as_item, made[:n_items]))
