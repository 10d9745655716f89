"""Ask a model, a sealed run's or weights that were not trained here: one question, or a file of items."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from workings.data.rows import learned_questions, prompt_digest
from workings.engines.base import StreamingEngine
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.models.tokenizer import Tokenizer
from workings.record import jsonl
from workings.record.layout import PROMPTS, ROWS
from workings.record.waiting import waiting
from workings.runs.data.datasets import read_questions
from workings.runs.open_model import AS_RECORDED, WeightsRequest, open_run, open_untrained, open_weights
from workings.scoring.items import Item


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model wrote."""

    text: str
    finish_reason: str
    tokens: int

    def as_json(self) -> dict[str, Any]:
        """Keys of `ask --json`."""
        return {"completion": self.text, "finish_reason": self.finish_reason, "tokens": self.tokens}


Tell = Callable[[str], None]
"""Takes the next piece of an answer."""


def ask(run: Path, question: str, *, max_new_tokens: int = 256, tell: Tell | None = None) -> Reply:
    """Put a question to a run's last checkpoint, greedily, in the chat template it was trained with.

    ``tell`` gets the answer in pieces while it is written; in one piece where the engine cannot say each token.

    Raises:
        RequestError: no sealed run at that path, or not one new token.
        RecordError: it has no intact checkpoint.
    """
    with waiting("opening the trained model"):
        session = open_run(run).session
    return _reply(session, question, max_new_tokens, tell)


def ask_untrained(run: Path, question: str, *, max_new_tokens: int = 256, tell: Tell | None = None) -> Reply:
    """The same question to the model that the run began with.

    Raises:
        RequestError: as `workings.runs.open_model.open_untrained`.
    """
    with waiting("opening the untrained model"):
        session = open_untrained(run)
    return _reply(session, question, max_new_tokens, tell)


def _reply(session: ModelSession, question: str, max_new_tokens: int, tell: Tell | None) -> Reply:
    if max_new_tokens < 1:
        raise RequestError(f"max_new_tokens: {max_new_tokens}", "at least 1")
    engine, prompt, stops = session.engine, session.template.prompt_ids(question), session.template.stop_ids
    with ExitStack() as until_told:
        # The programs that answer may have to be compiled first.
        until_told.enter_context(waiting("answering"))

        def tell_piece(piece: str) -> None:
            until_told.close()  # a line about waiting would be drawn into the answer
            if tell is not None:
                tell(piece)

        pieces = Pieces(session.tokenizer, tell_piece)
        if tell is not None and isinstance(engine, StreamingEngine):
            completion = engine.stream(session.state, prompt, max_new_tokens=max_new_tokens, stop_ids=stops,
                                       tell=pieces.take)
        else:
            completion = engine.generate(session.state, [prompt], max_new_tokens=max_new_tokens, stop_ids=stops)[0]
    text = session.tokenizer.decode(completion.tokens)
    pieces.end(text)
    return Reply(text=text, finish_reason=completion.finish_reason, tokens=len(completion.tokens))


class Pieces:
    """Tokens that come one by one, told as text: together the pieces are the text of all tokens."""

    def __init__(self, tokenizer: Tokenizer, tell: Tell) -> None:
        self._tokenizer, self._tell = tokenizer, tell
        self._tokens: list[int] = []
        self._told = ""

    def take(self, token: int) -> None:
        """One more token; what it adds is told, once its characters are whole."""
        self._tokens.append(token)
        # A character may be several tokens, of which the first ones alone read as this sign.
        self.end(self._tokenizer.decode(self._tokens).rstrip("\N{REPLACEMENT CHARACTER}"))

    def end(self, text: str) -> None:
        """Tell what is missing of the text so far."""
        if len(text) > len(self._told):
            self._tell(text[len(self._told):])
            self._told = text


def free_unit(run: Path, name: str) -> Path:
    """`eval/NAME` of a run, or with the next number: the run's own lies in `eval/items`, as many people's items do.

    One that was interrupted keeps its name, so that it goes on.
    """
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(place for each in names if not (place := run / "eval" / each).exists())


def evaluate_run(run: str | Path, items: str | Path, out: str | Path, *, settings: EvaluationSettings | None = None,
                 device: str = AS_RECORDED, progress: Callable[[int, int], None] | None = None,
                 learned: Callable[[list[str]], None] | None = None) -> Scorecard:
    """Evaluate a run's last checkpoint on items and seal the evaluation at ``out``.

    Args:
        run: a sealed run directory.
        items: JSON lines with id, prompt and expected_answer; or traces, whose answers are then expected.
        out: directory to make for the evaluation.
        settings: decoding, extraction and scoring; greedy and with the built-in scorer by default.
        device: where to generate; by default what the run's recipe asked for.
        progress: called with the items that are done and the items in all.
        learned: called, before the model is opened, with the ids of questions that the run was trained on, where there
            are some.

    Raises:
        RequestError: no sealed run, items that are none, ``out`` exists, or the device is absent.
        RecordError: the run has no intact checkpoint.
    """
    # First, because a bad line is found at once, and to open a model may take minutes.
    questions = read_questions(Path(items))
    both = refuse_learned(Path(run), questions, Path(out))
    if both and learned is not None:
        learned(both)
    with waiting("opening the model"):
        opened = open_run(Path(run), device)
    return evaluate(opened.session, questions, Path(out), settings=settings or EvaluationSettings(),
                    made_from=opened.root, progress=progress,
                    facts={"run": opened.run.path.resolve().name, "step": opened.checkpoint.step})


def refuse_learned(run: Path, questions: Sequence[Item], out: Path) -> list[str]:
    """Ids of the questions that a run was trained on; they are not kept in it, for it would not verify any more.

    Raises:
        RequestError: ``out`` lies in the run, and a question was trained on.
    """
    there = next((run / name for name in (ROWS, PROMPTS) if (run / name).is_file()), None)
    learned = learned_questions(jsonl.read(there)[0]) if there is not None else set()
    both = [item.id for item in questions if prompt_digest(item.prompt) in learned]
    if both and run.resolve() in out.resolve().parents:
        raise RequestError(f"{len(both):,} of {len(questions):,} items that {run} was trained on, such as {both[0]}, "
                           "for an evaluation in it, with which it would not verify any more",
                           "questions that it has not seen",
                           "other --items, or --out DIR outside of the run, to see what it has learned by heart")
    return both


def evaluate_weights(model: str, items: Path, out: Path, *, request: WeightsRequest,
                     settings: EvaluationSettings | None = None) -> Scorecard:
    """Evaluate weights in Hugging Face's format (a folder, or a Hub id) and seal the evaluation at ``out``.

    Args:
        model: a folder with ``config.json``, safetensors and tokenizer, or an id such as ``google/gemma-2b``.
        items: as in `evaluate_run`.
        out: directory to make for the evaluation.
        request: chat template, engine, device and number format: there is no recipe to take them from.
        settings: as in `evaluate_run`.

    Raises:
        RequestError: as `workings.runs.open_model.open_weights`, or as `evaluate_run`.
    """
    questions = read_questions(items)
    opened = open_weights(model, request)
    return evaluate(opened.session, questions, out, settings=settings or EvaluationSettings(), made_from=None,
                    facts=opened.facts)
