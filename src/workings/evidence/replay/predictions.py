"""Some of a run's own completions, generated again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Engine, State
from workings.errors import RecordError
from workings.evaluation.generate import generate_batch
from workings.evaluation.settings import EvaluationSettings
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.digest import bytes_digest
from workings.scoring.items import Item


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An evaluation that a run's last state answered, as it was recorded."""

    unit: str
    """Its place in the run, e.g. `eval/items`."""
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    """Lines of its predictions."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """The state that is asked again, with what turns questions into tokens and back."""

    engine: Engine
    state: State
    tokenizer: Tokenizer
    template: ChatTemplate


def generate_again(model: Model, asked: Asked, count: int, *, whole_batches: bool) -> list[dict[str, Any]]:
    """Completions of the first items of an evaluation, beside the recorded ones.

    Args:
        model: what is asked.
        asked: the evaluation.
        count: items to ask, at least.
        whole_batches: ask whole batches, as they were asked: the numbers of a batch may depend on its rows.

    Returns:
        One record a completion: `unit`, `id`, `sample`, `completion`, `same`.

    Raises:
        RecordError: the evaluation does not say how it was generated.
    """
    settings = _settings(asked)
    items: dict[str, Item] = {}
    recorded: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in asked.rows:
        items.setdefault(row["id"], Item(id=row["id"], prompt=row["prompt"], expected_answer=str(row["gold"])))
        recorded[row["id"], row["sample"]] = row
    size = max(1, settings.batch_size // settings.samples)
    if whole_batches:
        count = -(-count // size) * size
    chosen = list(items.values())[:count]
    again = []
    for start in range(0, len(chosen), size):
        answers = generate_batch(model.engine, model.state, model.tokenizer, model.template,
                                 chosen[start:start + size], settings)
        for answer in answers:
            text = answer.text.encode("utf-8", "replace").decode("utf-8")  # as it is recorded
            again.append({"unit": asked.unit, "id": answer.item.id, "sample": answer.sample, "completion": text,
                          "same": is_recorded(text, recorded[answer.item.id, answer.sample])})
    return again


def is_recorded(text: str, row: Mapping[str, Any]) -> bool:
    """Whether a completion is the one that a prediction's line holds, or names by its digest."""
    if "completion_sha256" in row:
        return bytes_digest(text.encode("utf-8")) == row["completion_sha256"]
    return bool(text == row["completion"])


def _settings(asked: Asked) -> EvaluationSettings:
    decoding = asked.config.get("decoding")
    if not isinstance(decoding, Mapping) or "max_new_tokens" not in decoding:
        raise RecordError(f"{asked.unit} does not say how it was generated")
    return EvaluationSettings(max_new_tokens=decoding["max_new_tokens"], batch_size=decoding["batch_size"],
                              temperature=decoding["temperature"], samples=decoding["samples"], seed=decoding["seed"])
