"""Tasksets of the library `verifiers` (0.4): a question, and one answer that the task's rewards score."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

from workings.environments.base import Row, Step, installed, source_of
from workings.errors import RequestError
from workings.hints import pip_install


class VerifiersTaskset:
    """A taskset of an installed module; an episode has one turn.

    The library itself starts containers and servers for an agent. The rewards of a simple task need only a trace, which
    is made here from the question and the model's text.
    """

    def __init__(self, name: str, **config: Any) -> None:
        """A taskset with its configuration.

        Raises `RequestError` if it is not installed, or its tasks need more than a question and an answer.
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
        has_environment = loaders.environment_class(name).__name__ != "SingleAgentEnv"
        needs = "its own environment of several agents" if has_environment else self._needs()
        if needs:
            raise RequestError(f"environment verifiers:{name} needs {needs}", "a taskset whose tasks are a question in "
                               "text, with rewards that need no runtime, tools or judge")

    def _needs(self) -> str:
        """What the tasks need besides a question and an answer; empty if nothing."""
        kind, config = self._task_type, self._taskset.config
        if kind.NEEDS_CONTAINER:
            return "a container"
        if kind.toolsets(config.task) or type(self._taskset).toolsets(config):
            return "tools"
        if config.task.judges:
            return "a judge"
        task = kind(kind.data_type().model_construct(), config.task)
        names = []
        for function in (*task.hooks("reward"), *task.hooks("metric")):
            runtime = inspect.signature(function).parameters.get("runtime")
            if runtime is not None and runtime.default is inspect.Parameter.empty:
                names.append(function.__name__)
        # The library calls these with a runtime, if the task defines them.
        names += [name for name in ("setup", "finalize") if name in vars(kind)]
        return f"a runtime for {', '.join(names)}" if names else ""

    @staticmethod
    def version(name: str) -> str:
        """Version of the library and digest of the taskset's source, which decide the rewards."""
        return f"{installed('verifiers')}, {source_of(name.replace('-', '_').lower())}"

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """The tasks' data, as text because they may hold nulls: shuffled, or in their order if they are endless."""
        view = self._taskset.shuffle(seed).take(count) if self._taskset.bounded else self._taskset.take(count)
        for number, task in enumerate(view):
            data = task.data
            if not isinstance(data.prompt, str):
                raise TypeError(f"task {number} begins with several messages; expected a question in text")
            row: dict[str, Any] = {"id": f"{data.id or number}-{task.hash[:12]}",
                                   "data": data.model_dump_json(exclude_none=True)}
            if data.system_prompt:
                row["history"] = [{"role": "system", "content": data.system_prompt}]
            yield row

    def reset(self, seed: int, row: Row) -> str:
        """The question."""
        self._data = self._task_type.data_type().model_validate_json(row["data"])
        return str(self._data.prompt)

    def step(self, text: str) -> Step:
        """The sum of the task's weighted rewards for the text; the episode ends."""
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
