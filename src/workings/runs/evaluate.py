"""Asks a model one question, or evaluates it on a file of items or on a task of another program.

The model is a sealed run's, or other weights.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.data.rows import learned_questions, prompt_digest
from workings.distributed.process_group import ProcessGroup
from workings.engines.base import StreamingEngine
from workings.errors import RequestError
from workings.evaluation.harness import Task, TaskRequest, seal_task
from workings.evaluation.run import complete, evaluate, session_facts
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import refuse_existing
from workings.hints import pip_install
from workings.inputs.datasets import read_prompts
from workings.models.turns import Turn
from workings.record import jsonl
from workings.record.layout import PROMPTS, ROWS, numbered
from workings.record.progress import slow_operation
from workings.runs.open_model import ALONE, AS_RECORDED, WeightsRequest, open_model, open_run, open_untrained
from workings.runs.python_api.given import Rows, items_file
from workings.scoring.items import Item
from workings.serving.answering import Pieces

INSPECT = "inspect:"
"""Prefix of tasks of inspect_ai."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's answer."""

    text: str
    finish_reason: str
    tokens: int

    def to_json(self) -> dict[str, Any]:
        """Keys of `ask --json`."""
        return {"completion": self.text, "finish_reason": self.finish_reason, "tokens": self.tokens}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, and how it is answered."""

    text: str
    history: tuple[Turn, ...] = ()
    """Turns before it."""
    max_new_tokens: int = 256
    temperature: float = 0.0
    """0: the most likely token each time; above 0: sampled with ``seed``, and shown when it is complete."""
    seed: int = 0


def ask(run: Path, question: Question, *, show: Callable[[str], None] | None = None, untrained: bool = False) -> Reply:
    """Asks a run's last checkpoint, or its untrained model, a question in the chat template that it was trained with.

    ``show`` gets the answer in pieces while it is generated; in one piece if the engine cannot stream. Raises
    `RequestError`, and `RecordError` without an intact checkpoint.
    """
    if question.max_new_tokens < 1:
        raise RequestError(f"max_new_tokens is {question.max_new_tokens}, too few for an answer", "at least 1")
    with slow_operation(f"opening the {'untrained' if untrained else 'trained'} model"):
        session = open_untrained(run) if untrained else open_run(run).session
    engine, max_new_tokens = session.engine, question.max_new_tokens
    prompt = session.template.prompt_ids(question.text, question.history)
    with ExitStack() as until_first_piece:
        until_first_piece.enter_context(slow_operation("answering"))

        def show_piece(piece: str) -> None:
            until_first_piece.close()  # a status line would be printed into the answer
            if show is not None:
                show(piece)

        pieces = Pieces(session.tokenizer, show_piece)
        if show is not None and question.temperature == 0 and isinstance(engine, StreamingEngine):
            completion = engine.stream(session.state, prompt, max_new_tokens=max_new_tokens,
                                       stop_ids=session.template.stop_ids, tell=pieces.add)
        else:
            [completion] = complete(session, [prompt], [question.seed], temperature=question.temperature,
                                    max_new_tokens=max_new_tokens)
    text = session.tokenizer.decode(completion.tokens)
    pieces.show_up_to(text)
    return Reply(text=text, finish_reason=completion.finish_reason, tokens=len(completion.tokens))


def free_unit(run: Path, name: str) -> Path:
    """`eval/NAME` of a run, or with the next free number; an interrupted evaluation keeps its name."""
    units = (run / "eval" / each for each in numbered(name))
    return next(unit for unit in units if not unit.exists())


def evaluate_run(run: str | Path, items: Rows, out: str | Path, *, settings: EvaluationSettings | None = None,
                 device: str = AS_RECORDED, weights: WeightsRequest | None = None,
                 on_trained_items: Callable[[list[str]], None] | None = None, group: ProcessGroup = ALONE
                 ) -> Scorecard:
    """Evaluates a run's last checkpoint, or other weights, on items and seals the evaluation at ``out``.

    Args:
        run: a sealed run directory; with ``weights`` a folder with ``config.json``, safetensors and tokenizer, or an id
            such as ``google/gemma-2b``.
        items: JSON lines with id, prompt and expected_answer; or traces, whose answers are then expected; or rows.
        out: directory to make for the evaluation.
        settings: decoding, extraction and scoring; greedy and with the built-in scorer by default.
        device: where to generate; by default the device of the run's recipe.
        weights: chat template, engine, device and number format of weights, which have no recipe; None for a run.
        on_trained_items: called, before the model is opened, with the ids of items whose question the run was trained
            on, if there are any.
        group: processes that hold a run's model together (`workings.runs.open_model.processes_of`); by default this
            one alone.

    Raises:
        RequestError: no sealed run or weights, invalid items, ``out`` exists, or the device is absent.
        RecordError: the run has no intact checkpoint.
    """
    # First, because a bad line is found at once and opening a model may take minutes.
    with items_file(items) as file:
        questions = read_prompts(file)
    trained = find_trained_items(Path(run), questions, Path(out)) if weights is None else []
    if trained and on_trained_items is not None:
        on_trained_items(trained)
    with slow_operation("opening the model"):
        opened = open_model(run, weights, device, group)
    return evaluate(opened.session, questions, Path(out), settings=settings or EvaluationSettings(),
                    made_from=opened.root, facts=opened.facts)


def open_task(request: TaskRequest) -> Task:
    """A task of lm-evaluation-harness, or with the prefix `inspect:` one of inspect_ai. Raises `RequestError`."""
    is_inspect = request.name.startswith(INSPECT)
    library, extra = ("inspect_ai", "inspect") if is_inspect else ("lm_eval", "lm-eval")
    if find_spec(library) is None:
        raise RequestError(f"--task {request.name} needs {library}", f"the package {library}", pip_install(extra))
    if is_inspect:
        from workings.runs.inspect_task import InspectTask
        return InspectTask.open(replace(request, name=request.name.removeprefix(INSPECT)))
    from workings.runs.lm_eval_task import LmEvalTask
    return LmEvalTask.open(request)


def evaluate_task(model: str, request: TaskRequest, out: Path, *, weights: WeightsRequest | None = None,
                  device: str = AS_RECORDED, on_trained_items: Callable[[list[str]], None] | None = None,
                  group: ProcessGroup = ALONE) -> Scorecard:
    """Has a model answer the task of another program, which scores it, and seals the evaluation at ``out``.

    Arguments and errors are those of `evaluate_run` and of `open_task`.
    """
    refuse_existing(out)
    task = open_task(request)
    if weights is None and on_trained_items:
        learned = _learned_digests(Path(model))
        trained = [name for name, texts in task.texts().items()
                   if any(prompt_digest(text) in learned for text in texts)]
        if trained:
            on_trained_items(trained)
    with slow_operation("opening the model"):
        opened = open_model(model, weights, device, group)
    found = task.answer(opened.session)
    if weights is None:
        find_trained_items(Path(model), found.items, out)
    return seal_task(found, out, made_from=opened.root, facts=session_facts(opened.session, opened.facts))


def _learned_digests(run: Path) -> set[str | None]:
    # A run from traces has an index of rows, one from rewards its prompts.
    index = next((run / name for name in (ROWS, PROMPTS) if (run / name).is_file()), None)
    return learned_questions(jsonl.read(index)[0]) if index is not None else set()


def find_trained_items(run: Path, questions: Sequence[Item], out: Path) -> list[str]:
    """Ids of the items whose question a run was trained on. Raises `RequestError` for them if ``out`` is in the run."""
    digests = _learned_digests(run)
    trained = [item.id for item in questions if prompt_digest(item.prompt) in digests]
    # Verification refuses such an evaluation in a run; outside of it the numbers are the caller's own.
    if trained and run.resolve() in out.resolve().parents:
        raise RequestError(f"{run} was trained on {len(trained):,} of {len(questions):,} items, such as {trained[0]}: "
                           "an evaluation inside the run would then fail verification",
                           "questions that it has not seen",
                           "other --items, or --out DIR outside the run to measure memorization")
    return trained
