"""Tasks of lm-evaluation-harness as a library: it asks and scores, our model answers."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.defaults import DEFAULT_OTHER_SEED
from lm_eval.evaluator import evaluate
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.tasks import TaskManager
from yaml import YAMLError

from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.harness import USUAL_METRICS, AnsweredTask, ScoredAnswer, TaskRequest, scored_answer
from workings.evaluation.likelihoods import are_greedy, continuation_log_probs
from workings.evaluation.run import complete, sample_seed
from workings.record.digest import file_digest
from workings.record.progress import slow_operation
from workings.scoring.items import UNSPECIFIED

_SUFFIXES = (".yaml", ".yml")
_PERPLEXITIES = {"word_perplexity", "byte_perplexity", "bits_per_byte", "perplexity"}
"""Metrics over all documents, without scores per item."""
_ONLY_SAMPLED = {"top_p", "top_k", "min_p", "typical_p"}
"""Settings without effect on greedy decoding."""
_NEUTRAL: dict[str, Any] = {"top_p": 1, "top_k": 0, "num_beams": 1, "repetition_penalty": 1}
"""Values with which a setting has no effect."""


class SessionModel(TemplateLM):
    """Our model with the interface of the harness: texts, all three request types."""

    def __init__(self, session: ModelSession, *, batch_size: int, greedy: bool = True) -> None:
        """``greedy``: whether to find out if greedy decoding would write a continuation, which doubles the time."""
        super().__init__()
        self._session, self._batch_size, self._greedy = session, batch_size, greedy
        self.chats = session.template.name != "plain"
        """Whether prompts are written in chat turns."""
        self.endings: dict[tuple[str, str], tuple[str, int]] = {}
        """By prompt and completion: its finish reason, and its number of tokens (-1: not known)."""

    @property
    def eot_token_id(self) -> int:
        """The id that ends a text."""
        return self._session.template.stop_ids[-1]

    @property
    def prefix_token_id(self) -> int:
        """The token before a text that has no context."""
        bos = self._session.tokenizer.bos_id
        return self.eot_token_id if bos is None else bos

    @property
    def tokenizer_name(self) -> str:
        """Names the chat template in the harness's cache, which is not used."""
        return self._session.tokenizer.digest

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_unread: Any) -> list[int]:
        """Token ids of a text, with BOS (begin of sequence) unless it begins with it or it must have none."""
        tokenizer, template = self._session.tokenizer, self._session.template
        ids = tokenizer.encode(string)
        if add_special_tokens is False or ids[:1] == [tokenizer.bos_id]:
            return ids
        return template.with_bos(ids) if self.chats else tokenizer.encode(string, add_special=True)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of turns up to the answer; without ``add_generation_prompt`` the last turn begins the answer."""
        turns = [(turn["role"], turn["content"]) for turn in chat_history]
        begun = "" if add_generation_prompt else turns.pop()[1]
        *history, (_, question) = turns
        return self._session.template.prompt_text(question, history) + begun

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """Log likelihood of each continuation, and whether greedy decoding writes it; without a progress bar."""
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(self, requests: list[tuple[Any, list[int], list[int]]],
                              **_unread: Any) -> list[tuple[float, bool]]:
        pairs = [(context, continuation) for _, context, continuation in requests]
        found: list[tuple[float, bool]] = []
        size = 16 * self._batch_size
        with slow_operation(f"reading {len(pairs):,} continuations") as progress:
            for start in range(0, len(pairs), size):
                chunk = pairs[start:start + size]
                sums = map(sum, continuation_log_probs(self._session, chunk))
                greedy = are_greedy(self._session, chunk) if self._greedy else [False] * len(chunk)
                found += zip(sums, greedy, strict=True)
                progress.reaches(len(found), len(pairs), "continuations")
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = True) -> list[float]:
        """Never called: tasks of perplexities over whole texts are refused, because they score no items."""
        raise NotImplementedError

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Completions up to the task's stop texts. A batch has requests with equal settings only."""
        numbers_by_settings: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            numbers_by_settings.setdefault(str(request.args[1]), []).append(number)
        texts = [""] * len(requests)
        with slow_operation(f"answering {len(requests):,} prompts") as progress:
            for numbers in numbers_by_settings.values():
                decoding = decoding_of(requests[numbers[0]].args[1])
                for start in range(0, len(numbers), self._batch_size):
                    batch = numbers[start:start + self._batch_size]
                    written = self._write([requests[number].args[0] for number in batch], batch, decoding)
                    for number, text in zip(batch, written, strict=True):
                        texts[number] = text
                    progress.reaches(start + len(batch), len(numbers), "prompts")
        return texts

    def _write(self, prompts: Sequence[str], numbers: Sequence[int], decoding: Mapping[str, Any]) -> Iterator[str]:
        session = self._session
        completions = complete(session, [self.tok_encode(prompt) for prompt in prompts],
                               [sample_seed(0, "request", number) for number in numbers],
                               temperature=decoding["temperature"], max_new_tokens=decoding["max_new_tokens"])
        for prompt, completion in zip(prompts, completions, strict=True):
            whole = session.tokenizer.decode(completion.tokens, skip_special=True)
            text = postprocess_generated_text(whole, decoding["until"], None)
            ending = str(completion.finish_reason), len(completion.tokens)
            self.endings[prompt, text] = ending if text == whole else ("stop", -1)
            yield text


def decoding_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A task's `max_new_tokens`, `temperature` and `until`. Raises `RequestError` for other settings that matter."""
    given = normalize_gen_kwargs(dict(settings))
    sampled = bool(given.pop("do_sample", False))
    until = handle_stop_sequences(given.pop("until", None), None)
    decoding = {"max_new_tokens": given.pop("max_gen_toks"), "until": list(until),
                "temperature": float(given.pop("temperature", 1.0)) if sampled else 0.0}
    given.pop("temperature", None)
    # Settings that are off or neutral change nothing, nor do those of sampling in greedy decoding.
    unread = [name for name, value in given.items()
              if value not in (None, False) and value != _NEUTRAL.get(name) and (sampled or name not in _ONLY_SAMPLED)]
    if unread:
        raise RequestError(f"the task's generation settings {', '.join(unread)} are not supported",
                           "at most do_sample, temperature, until and max_gen_toks", "a task file without them")
    return decoding


@dataclass(frozen=True, kw_only=True)
class LmEvalTask:
    """One task of lm-evaluation-harness, or a group of them."""

    request: TaskRequest
    loaded: dict[str, Any]
    """As `TaskManager.load` returns it."""
    metric: str
    filter: str

    @classmethod
    def open(cls, request: TaskRequest) -> "LmEvalTask":
        """Finds the task, its data and its metrics, before a model is opened. Raises `RequestError`."""
        loaded = _load(request.name)
        tasks = list(loaded["tasks"].values())
        for task in tasks:
            _prepare(task, request)
        metrics = _common(task.aggregation() for task in tasks)
        filters = _common([str(each["name"]) for each in task.get_config("filter_list") or [{"name": "none"}]]
                          for task in tasks)
        scores = [name for name in metrics if name not in _PERPLEXITIES]
        only_score = scores[0] if len(scores) == 1 else ""
        default_metric = next((name for name in USUAL_METRICS if name in metrics), only_score)
        default_filter = filters[0] if filters else ""
        return cls(request=request, loaded=loaded, filter=_chosen("filter", request.filter, filters, default_filter),
                   metric=_chosen("metric", request.metric, scores, default_metric))

    def texts(self) -> dict[str, list[str]]:
        """The texts of each document."""
        return {f"{self._prefix(name)}doc-{number}": [text for text in doc.values() if isinstance(text, str)]
                for name, task in self.loaded["tasks"].items()
                for number, doc in task.doc_iterator(limit=self.request.limit)}

    def answer(self, session: ModelSession) -> AnsweredTask:
        """Answers all documents. Raises `RequestError` if the engine lacks what the task needs."""
        tasks = self.loaded["tasks"]
        kinds = {task.OUTPUT_TYPE for task in tasks.values()}
        # The accuracy of multiple choice needs only likelihoods: the likeliest choice is the answer.
        greedy = kinds != {"multiple_choice"} or not self.metric.startswith("acc")
        model = SessionModel(session, batch_size=self.request.batch_size, greedy=greedy)
        found = evaluate(lm=model, task_dict=self.loaded, limit=self.request.limit, bootstrap_iters=0,
                         apply_chat_template=model.chats, fewshot_as_multiturn=model.chats)
        answers = [self._answer(name, sample, model) for name, samples in found["samples"].items()
                   for sample in samples if sample["filter"] == self.filter]
        # The digest of a task's file is its version, because the file may change without a new one.
        path = Path(self.request.name)
        versions = [f"{path.name} {file_digest(path)}"] if path.suffix in _SUFFIXES else [
            f"{name} {task.VERSION}" for name, task in tasks.items()]
        return AnsweredTask(
            answers=answers, rule=f"harness:{self.filter}",
            scorer={"name": f"lm-evaluation-harness {self.metric}, filter {self.filter}",
                    "version": ", ".join([version("lm_eval"), *versions])},
            source={"kind": "task", "program": "lm-evaluation-harness",
                    "version": version("lm_eval"), "task": path.name,
                    "task_versions": {name: str(task.VERSION) for name, task in tasks.items()},
                    "few_shot": {name: task.get_config("num_fewshot") for name, task in tasks.items()},
                    "metric": self.metric, "filter": self.filter, "chat_turns": model.chats,
                    "limit": self.request.limit or {"absent": "all documents were asked"}},
            decoding=self._decoding())

    def _decoding(self) -> dict[str, Any]:
        """How answers are generated, if all tasks that generate do it alike."""
        decodings = [decoding_of(task.config.generation_kwargs) for task in self.loaded["tasks"].values()
                     if task.OUTPUT_TYPE == "generate_until"]
        if not decodings:
            return {"absent": "log likelihoods: nothing is generated"}
        if any(decoding != decodings[0] for decoding in decodings):
            return {"absent": "differs between the tasks"}
        return {**decodings[0], "samples": 1, "seed": 0, "batch_size": self.request.batch_size}

    def _answer(self, name: str, sample: Mapping[str, Any], model: SessionModel) -> ScoredAnswer:
        section = name if len(self.loaded["tasks"]) > 1 else UNSPECIFIED
        answer = scored_answer({**sample, "section": section}, self.metric,
                               f"task {name}, document {sample['doc_id']}", self._prefix(name))
        reason, tokens = model.endings.get((answer.item.prompt, answer.text or ""), ("", -1))
        return replace(answer, finish_reason=reason, tokens=tokens)

    def _prefix(self, name: str) -> str:
        return f"{name}/" if len(self.loaded["tasks"]) > 1 else ""


def _load(name: str) -> dict[str, Any]:
    """Tasks by name or from a file. Raises `RequestError` for a task, or its data, that cannot be found."""
    path = Path(name)
    is_file = path.suffix in _SUFFIXES
    if is_file and not path.is_file():
        raise RequestError(f"the task file {name} does not exist",
                           "a YAML file of lm-evaluation-harness, or the name of a task", "--task FILE.yaml")
    with slow_operation("looking for the task"):
        manager = TaskManager(include_defaults=False, include_path=[] if is_file else _folders(name))
        if not is_file and name not in manager.all_tasks:
            manager = TaskManager()
    if not is_file and name not in manager.all_tasks:
        near = get_close_matches(name, manager.all_tasks, n=3)
        raise RequestError(f"lm-evaluation-harness {version('lm_eval')} has no task {name}",
                           "a name that `lm_eval ls tasks` prints, a YAML file, or inspect:FILE.py@NAME",
                           f"--task {near[0]}" if near else "--task FILE.yaml")
    try:
        with slow_operation("reading the task's data"):
            try:
                loaded: dict[str, Any] = manager.load([name])
            # A group may name tasks of other folders.
            except KeyError:
                loaded = TaskManager().load([name])
    # `datasets` raises OSError where it finds nothing, offline or online.
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError, YAMLError) as error:
        told = " ".join(str(error).split())[:300]
        raise RequestError(f"task {name} cannot be opened: {type(error).__name__}: {told}",
                           "a task that `lm_eval validate` accepts, whose data can be downloaded, are in the cache "
                           "(HF_DATASETS_CACHE) or are a file (dataset_path: json, dataset_kwargs: {data_files: …})",
                           "--task FILE.yaml") from error
    return loaded


def _folders(name: str) -> list[Path]:
    """Folders of the harness whose files define a task or group of this name, without parsing thousands of files."""
    defines = re.compile(rf"^(task|group):\s*['\"]?{re.escape(name)}['\"]?\s*$", re.MULTILINE)
    root = Path(lm_eval.tasks.__file__).parent
    return sorted({path.parent for path in root.rglob("*.yaml") if defines.search(path.read_text("utf-8"))})


def _prepare(task: Any, request: TaskRequest) -> None:
    """Sets a task's examples and limits. Raises `RequestError` for unsupported ones."""
    name = task.config.task
    if getattr(task, "UNSAFE_CODE", False):
        raise RequestError(f"task {name} runs code that the model writes", "a task that runs none",
                           "lm_eval --confirm_run_unsafe_code, in a sandbox, on `workings export RUN`")
    default_shots = task.get_config("num_fewshot")
    shots = (default_shots or 0) if request.few_shot is None else request.few_shot
    if default_shots == 0 and shots != 0:
        raise RequestError(f"task {name} takes no examples, and --few-shot is {shots}", "0", "leave --few-shot out")
    task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(seed=DEFAULT_OTHER_SEED)
    generates = task.OUTPUT_TYPE == "generate_until"
    if request.max_new_tokens is not None and not generates:
        raise RequestError(f"task {name} compares log likelihoods and does not take --max-new-tokens",
                           "a task that generates text", "leave --max-new-tokens out")
    if generates:
        if request.max_new_tokens is not None:
            task.set_config(key="generation_kwargs", value={"max_gen_toks": request.max_new_tokens}, update=True)
        decoding_of(task.config.generation_kwargs)


def _common(names: Iterable[Iterable[str]]) -> list[str]:
    """Names that all tasks have, in the first one's order."""
    first, *others = map(list, names)
    return [name for name in first if all(name in other for other in others)]


def _chosen(kind: str, given: str, present: Sequence[str], default: str) -> str:
    """The given value, or without one the default. Raises `RequestError` if the task has neither."""
    if given in present or (not given and default):
        return given or default
    raise RequestError(f"the task has no {kind} {given or 'that scores an item'}",
                       f"one of {', '.join(present)}" if present else "a score from 0 to 1 of each item",
                       f"--harness-{kind} {present[0]}" if present else "another --task")
