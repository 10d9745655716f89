"""Tasksets of the library `verifiers` (0.4): a question, and one answer that the task's own rewards score."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

from workings.environments.base import Row, Step, installed, source_of
from workings.errors import RequestError
from workings.hints import pip_install

_SIMPLE = "a taskset whose tasks are a question in text, with rewards that need no runtime, tools or judge"


class VerifiersTaskset:
    """A taskset by the name of its installed module; an episode has one turn.

    The library starts containers and servers for an agent. The rewards of a simple task need only a trace, which is
    made here from the question and the model's text, so a stranger can compute them again.
    """

    def __init__(self, name: str, **config: Any) -> None:
        """A taskset with the keys of its configuration.

        Raises `RequestError` if the library or the taskset is not installed, or its tasks need more than a question and
        an answer.
        """
        try:
            from verifiers.v1.utils import loaders
        except ImportError:
            raise RequestError(f"environment verifiers:{name} needs the library verifiers",
                               "verifiers 0.4 or newer", pip_install("verifiers", extra=False)) from None
        try:
            made = loaders.taskset_class(name)
        except (ModuleNotFoundError, AttributeError, TypeError, ValueError) as error:
            raise RequestError(f"environment verifiers:{name} is no taskset: {error}",
                               "an installed module that exports one Taskset") from None
        self._taskset = made(loaders.taskset_config_type(name)(id=name, **config))
        self._task_type = self._taskset.task_type()
        needs = self._needs(loaders.environment_class(name).__name__ != "SingleAgentEnv")
        if needs:
            raise RequestError(f"environment verifiers:{name} needs {needs}", _SIMPLE)

    def _needs(self, several_agents: bool) -> str:
        """What the tasks need besides a question and an answer; empty if nothing."""
        kind, config = self._task_type, self._taskset.config
        task = kind(kind.data_type().model_construct(), config.task)
        names = [function.__name__ for function in (*task.hooks("reward"), *task.hooks("metric"))
                 if getattr(inspect.signature(function).parameters.get("runtime"), "default", None)
                 is inspect.Parameter.empty]
        # A method that the library calls with its runtime, if the task has its own.
        own = [name for name in ("setup", "finalize") if name in vars(kind)]
        return ("its own environment of several agents" if several_agents
                else "a container" if kind.NEEDS_CONTAINER
                else "tools" if kind.toolsets(config.task) or type(self._taskset).toolsets(config)
                else "a judge" if config.task.judges
                else f"a runtime for {', '.join(names + own)}" if names or own else "")

    @staticmethod
    def version(name: str) -> str:
        """What decides the rewards: the library's version and the digest of the taskset's source."""
        return f"{installed('verifiers')}, {source_of(name.replace('-', '_').lower())}"

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Its tasks with their whole data, as text because they may hold nulls: shuffled, or in order if endless."""
        view = self._taskset.shuffle(seed).take(count) if self._taskset.bounded else self._taskset.take(count)
        for number, task in enumerate(view):
            data = task.data
            if not isinstance(data.prompt, str):
                raise TypeError(f"task {number} begins with several messages; expected a question in text")
            row = {"id": f"{data.id or number}-{task.hash[:12]}", "data": data.model_dump_json(exclude_none=True)}
            yield row | ({"history": [{"role": "system", "content": data.system_prompt}]} if data.system_prompt else {})

    def reset(self, seed: int, row: Row) -> str:
        """The question; nothing is random."""
        del seed
        self._data = self._task_type.data_type().model_validate_json(row["data"])
        return str(self._data.prompt)

    def step(self, text: str) -> Step:
        """The sum of the task's weighted rewards for a trace of question and text; the episode ends."""
        import verifiers.v1 as vf
        from verifiers.v1.graph import prepare_turn

        task = self._task_type(self._data, self._taskset.config.task)
        trace = vf.Trace(task=vf.TraceTask(type=type(task).__name__, data=self._data, key=task.key, hash=task.hash),
                         agent=vf.AgentInfo(config=vf.AgentConfig()))
        turns = [vf.SystemMessage(content=self._data.system_prompt)] if self._data.system_prompt else []
        prepare_turn(trace, [*turns, vf.UserMessage(content=self._data.prompt)]).commit(vf.Response(
            id="0", created=0, model="workings", message=vf.AssistantMessage(content=text), finish_reason="stop"))
        asyncio.run(task.score(trace))
        return Step("", float(trace.reward), done=True)
