"""Tasks of inspect_ai as a library: it asks and scores, our model answers."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import inspect_ai
from inspect_ai import model as api
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.scorer import value_to_float
from inspect_ai.tool import ToolChoice, ToolInfo
from pydantic import ValidationError

from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.harness import AnsweredTask, ScoredAnswer, TaskRequest
from workings.record.digest import file_digest
from workings.record.progress import slow_operation
from workings.scoring.items import Item
from workings.serving.answering import Answerer
from workings.serving.requests import ChatRequest

DEFAULT_TOKENS = 256
"""Default length limit if neither the task nor the command sets one."""
_PASSED_ON = {"temperature": "temperature", "seed": "seed", "stop_seqs": "stop", "top_p": "top_p",
              "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
              "num_choices": "n", "max_tokens": "max_tokens", "logit_bias": "logit_bias"}
"""Settings of inspect_ai and their names in a request; the request refuses values that no engine does."""
_NO_EFFECT = {"max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections",
              "adaptive_connections", "cache", "cache_prompt", "batch", "fail_on_refusal", "system_message",
              "parallel_tool_calls", "max_tool_output", "internal_tools"}
"""Settings without effect on a model in this process; inspect_ai itself adds the system message."""


class SessionAPI(api.ModelAPI):
    """Our model behind inspect_ai's interface: chat messages, one request at a time."""

    answerer: Answerer
    decodings: set[tuple[int, float]]
    """Limits on new tokens, each with the temperature, of all requests so far."""

    async def generate(self, input: list[api.ChatMessage], tools: list[ToolInfo],  # noqa: A002 # its name there
                       tool_choice: ToolChoice, config: api.GenerateConfig) -> api.ModelOutput:
        """Answers a conversation. Raises `RequestError` for unsupported requests."""
        given = {name: value for name, value in config.model_dump(exclude_none=True).items() if name not in _NO_EFFECT}
        if unread := given.keys() - _PASSED_ON.keys():
            raise RequestError(f"the task's settings {', '.join(sorted(unread))} are not supported",
                               f"a task that sets at most {', '.join(_PASSED_ON)}", "another task")
        asked = {"temperature": 0.0, "max_tokens": DEFAULT_TOKENS,
                 **{_PASSED_ON[name]: value for name, value in given.items()}}
        turns = [{"role": message.role, "content": message.text} for message in input]
        try:
            request = ChatRequest.model_validate({"model": "session", "messages": turns, "tools": tools, **asked})
        except ValidationError as error:
            first = error.errors()[0]
            raise RequestError(f"the task asks for {'.'.join(map(str, first['loc']))}: {first['msg']}",
                               "text without tools, greedy or at a temperature", "another task") from error
        self.decodings.add((request.longest, request.temperature))
        answers = self.answerer.answers(request)
        read, written = answers[0].prompt_tokens, sum(len(answer.tokens) for answer in answers)
        usage = api.ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
        return api.ModelOutput(
            model=self.model_name, usage=usage,
            choices=[api.ChatCompletionChoice(message=api.ChatMessageAssistant(content=answer.text, source="generate"),
                                          stop_reason="max_tokens" if answer.finish_reason == "length" else "stop")
                     for answer in answers])


@dataclass(frozen=True, kw_only=True)
class InspectTask:
    """One task of inspect_ai: `FILE.py@NAME`, or that of a package."""

    request: TaskRequest

    @classmethod
    def open(cls, request: TaskRequest) -> "InspectTask":
        """The task, not opened yet. Raises `RequestError` for a missing file or an unsupported option."""
        file = Path(request.name.partition("@")[0])
        if file.suffix == ".py" and not file.is_file():
            raise RequestError(f"the task file {file} does not exist",
                               "a Python file with a function decorated by @task", "--task inspect:FILE.py@NAME")
        options = {"--few-shot": request.few_shot is not None, "--harness-metric": request.metric,
                   "--harness-filter": request.filter}
        unread = [name for name, was_given in options.items() if was_given]
        if unread:
            raise RequestError(f"a task of inspect_ai does not take {' or '.join(unread)}",
                               "a task of lm-evaluation-harness for these", f"leave {' and '.join(unread)} out")
        return cls(request=request)

    def texts(self) -> dict[str, list[str]]:
        """Empty: inspect_ai reads a task's data when it runs the task."""
        return {}

    def answer(self, session: ModelSession) -> AnsweredTask:
        """Answers all samples. Raises `RequestError` where the task cannot be opened or a sample fails."""
        config = api.GenerateConfig(max_tokens=self.request.max_new_tokens, max_connections=1)
        decodings: set[tuple[int, float]] = set()

        # A separate class, because arguments of a model are written into inspect_ai's log.
        @api.modelapi("workings")
        def with_session() -> type[api.ModelAPI]:
            return type("BoundAPI", (SessionAPI,), {"answerer": Answerer(session), "decodings": decodings})

        log = self._log(api.get_model("workings/session", config=config, memoize=False))
        samples = sorted(log.samples or [], key=lambda sample: sample.epoch)
        if not samples or not all(sample.scores for sample in samples):
            raise RequestError(f"task {self.request.name} scores {'no sample' if samples else 'nothing'}",
                               "a task with samples and a scorer", "another --task")
        scorer = next(iter(samples[0].scores or {}))
        by_id: dict[str, list[ScoredAnswer]] = {}
        for sample in samples:
            by_id.setdefault(str(sample.id), []).append(_answer(sample, scorer))
        decoding: dict[str, Any] = {"absent": "the task asks in several ways"}
        if len(decodings) == 1:
            [(limit, temperature)] = decodings
            decoding = {"max_new_tokens": limit, "temperature": temperature, "samples": log.eval.config.epochs or 1}
        versions = [version("inspect_ai"), f"{log.eval.task} {log.eval.task_version}"]
        file = Path(self.request.name.partition("@")[0])
        if file.suffix == ".py":
            versions.append(file_digest(file))
        return AnsweredTask(
            answers=[answer for answers in by_id.values() for answer in answers], rule=f"inspect:{scorer}",
            scorer={"name": f"inspect_ai {scorer}", "version": ", ".join(versions)},
            source={"kind": "task", "program": "inspect_ai", "version": version("inspect_ai"), "task": log.eval.task,
                    "task_versions": {log.eval.task: str(log.eval.task_version)},
                    "scorer": scorer, "few_shot": {"absent": "decided by the task's solver"},
                    "limit": self.request.limit or {"absent": "all samples were asked"}},
            decoding=decoding)

    def _log(self, model: api.Model) -> EvalLog:
        name = self.request.name
        with tempfile.TemporaryDirectory() as folder, slow_operation(f"asking the samples of {name}"):
            try:
                [log] = inspect_ai.eval(
                    name, model=model, limit=self.request.limit, log_dir=folder, log_format="json", display="none",
                    score_display=False, log_realtime=False, acp_server=False, ctl_server=False, max_samples=1)
            except (PrerequisiteError, OSError, ValueError, ImportError, LookupError) as error:
                raise RequestError(f"task {name} cannot be opened: {' '.join(str(error).split())[:300]}",
                                   "a task of inspect_ai whose data are on this machine or can be downloaded",
                                   "--task inspect:FILE.py@NAME") from error
        if log.status != "success":
            told = log.error.message if log.error else log.status
            raise RequestError(f"task {name} failed: {' '.join(told.split())[:300]}", "a task that ends",
                               f"inspect eval {name} --model mockllm/model shows where it fails")
        return log


def _answer(sample: EvalSample, scorer: str) -> ScoredAnswer:
    targets = [sample.target] if isinstance(sample.target, str) else list(sample.target)
    prompt = sample.input if isinstance(sample.input, str) else "\n\n".join(
        f"{message.role}: {message.text}" for message in sample.input)
    extra: Mapping[str, Any] = {"choices": list(sample.choices)} if sample.choices else {}
    score = (sample.scores or {})[scorer]
    return ScoredAnswer(
        item=Item(id=str(sample.id), prompt=prompt or "(empty)", expected_answer=targets[0] if targets and targets[0]
                  else "(none)", aliases=tuple(targets[1:]), extra=extra),
        sample=sample.epoch - 1, text=sample.output.completion, extracted=score.answer or "",
        # A list or an object is unchanged; any other score is as counted in inspect_ai's means.
        score=score.value if isinstance(score.value, list | dict) else value_to_float()(score.value),
        finish_reason={"max_tokens": "length"}.get(str(sample.output.stop_reason), "stop"),
        tokens=sample.output.usage.output_tokens if sample.output.usage else -1)
