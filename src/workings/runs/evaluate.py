"""Ask a model, a sealed run's or weights that were not trained here: one question, or a file of items."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.engines.session import ModelSession
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.runs.open_model import AS_RECORDED, WeightsRequest, open_run, open_untrained, open_weights
from workings.scoring.items import read_items


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model wrote."""

    text: str
    finish_reason: str
    tokens: int

    def as_json(self) -> dict[str, Any]:
        """Keys of `ask --json`."""
        return {"completion": self.text, "finish_reason": self.finish_reason, "tokens": self.tokens}


def ask(run: Path, question: str, *, max_new_tokens: int = 256) -> Reply:
    """Put a question to a run's last checkpoint, greedily, in the chat template it was trained with.

    Raises:
        RequestError: no sealed run at that path.
        RecordError: it has no intact checkpoint.
    """
    return _reply(open_run(run).session, question, max_new_tokens)


def ask_untrained(run: Path, question: str, *, max_new_tokens: int = 256) -> Reply:
    """The same question to the model that the run began with.

    Raises:
        RequestError: as `workings.runs.open_model.open_untrained`.
    """
    return _reply(open_untrained(run), question, max_new_tokens)


def _reply(session: ModelSession, question: str, max_new_tokens: int) -> Reply:
    completion = session.engine.generate(session.state, [session.template.prompt_ids(question)],
                                         max_new_tokens=max_new_tokens, stop_ids=session.template.stop_ids)[0]
    return Reply(text=session.tokenizer.decode(completion.tokens), finish_reason=completion.finish_reason,
                 tokens=len(completion.tokens))


def evaluate_run(run: str | Path, items: str | Path, out: str | Path, *, settings: EvaluationSettings | None = None,
                 device: str = AS_RECORDED, progress: Callable[[int, int], None] | None = None) -> Scorecard:
    """Evaluate a run's last checkpoint on items and seal the evaluation at ``out``.

    Args:
        run: a sealed run directory.
        items: JSON lines with id, prompt and expected_answer.
        out: directory to make for the evaluation.
        settings: decoding, extraction and scoring; greedy and with the built-in scorer by default.
        device: where to generate; by default what the run's recipe asked for.
        progress: called with the items that are done and the items in all.

    Raises:
        RequestError: no sealed run, items that are none, ``out`` exists, or the device is absent.
        RecordError: the run has no intact checkpoint.
    """
    # First, because a bad line is found at once, and to open a model may take minutes.
    questions = read_items(Path(items))
    opened = open_run(Path(run), device)
    return evaluate(opened.session, questions, Path(out), settings=settings or EvaluationSettings(),
                    made_from=opened.root, progress=progress,
                    facts={"run": opened.run.path.resolve().name, "step": opened.checkpoint.step})


def evaluate_weights(model: str, items: Path, out: Path, *, request: WeightsRequest,
                     settings: EvaluationSettings | None = None,
                     progress: Callable[[int, int], None] | None = None) -> Scorecard:
    """Evaluate weights in Hugging Face's format (a folder, or a Hub id) and seal the evaluation at ``out``.

    Args:
        model: a folder with ``config.json``, safetensors and tokenizer, or an id such as ``google/gemma-2b``.
        items: JSON lines with id, prompt and expected_answer.
        out: directory to make for the evaluation.
        request: chat template, engine, device and number format: there is no recipe to take them from.
        settings: as in `evaluate_run`.
        progress: called with the items that are done and the items in all.

    Raises:
        RequestError: as `workings.runs.open_model.open_weights`, or as `evaluate_run`.
    """
    questions = read_items(items)
    opened = open_weights(model, request)
    return evaluate(opened.session, questions, out, settings=settings or EvaluationSettings(), made_from=None,
                    facts=opened.facts, progress=progress)
