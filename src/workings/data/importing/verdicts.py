"""Single completions with a verdict (KTO): a right and a wrong one of the same prompt make a pair."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workings.data.columns import SYSTEM
from workings.data.importing import fields
from workings.data.importing.fields import ALPACA, SHAREGPT, Exchange, Parts, Said
from workings.data.importing.pair_formats import PairParts, completion_of
from workings.data.importing.records import SourceRecord
from workings.data.row_fields import refuse_half_surrogates

_TAGS = ("label", "kto_tag")
_SHAPES = ("completion", "messages", "conversations", "output")
"""The key of each shape of a record that no other shape has."""


@dataclass(frozen=True, kw_only=True)
class HalfPair(Parts):
    """Half a pair: one judged completion of a record."""

    completion: str
    right: bool


def kto(record: Mapping[str, Any]) -> HalfPair:
    """A completion and whether it is right: `label` or `kto_tag`, true or false.

    The completion stands in `prompt` and `completion` (TRL, "Dataset formats and types", unpaired preference), in
    `messages` or `conversations`, or in `instruction`, `input` and `output` (LLaMA-Factory, data/README.md, KTO).
    """
    tags = [tag for tag in _TAGS if record.get(tag) is not None]
    if len(tags) != 1:
        raise ValueError(f"one of `label` and `kto_tag` was expected; the record has {fields.keys_of(record)}")
    right = record[tags[0]]
    if not isinstance(right, bool):
        raise ValueError(f"`{tags[0]}` must be true or false")
    shapes = [key for key in _SHAPES if record.get(key) is not None]
    if len(shapes) != 1:
        raise ValueError(f"one of {', '.join(f'`{key}`' for key in _SHAPES)} was expected; the record has "
                         f"{fields.keys_of(record)}")
    end, used = _exchange(record, shapes[0])
    completion = completion_of(end)
    # Here and not when the pair is made, so that a record without a text is refused alone.
    refuse_half_surrogates(record)
    if not completion or not end.prompt.strip():
        raise ValueError("the prompt or the completion is empty")
    return HalfPair(prompt=end.prompt, history=end.history, tool_turns=end.tool_turns, completion=completion,
                    right=right, used=frozenset({*used, tags[0]}))


def _exchange(record: Mapping[str, Any], shape: str) -> tuple[Exchange, frozenset[str]]:
    """Prompt and completion of a record, and the keys that they stand in."""
    if shape == "messages":
        return _told(record, fields.turns(record, shape)), frozenset({shape, *SYSTEM})
    if shape == "conversations":
        return _told(record, fields.turns(record, shape, SHAREGPT)), frozenset({shape, *SYSTEM})
    if shape == "output":
        prompt, history = fields.alpaca_prompt(record)
        return Exchange(history, prompt, fields.text(record, shape), ()), ALPACA | {shape}
    used = frozenset({"prompt", shape, *SYSTEM})
    # TRL writes either both as texts or both as turns.
    if isinstance(record.get("prompt"), list) or isinstance(record[shape], list):
        return _told(record, [*fields.turns(record, "prompt"), *fields.turns(record, shape)]), used
    return Exchange([said.turn for said in fields.system_turn(record)], fields.text(record, "prompt"),
                    fields.text(record, shape), ()), used


def _told(record: Mapping[str, Any], spoken: list[Said]) -> Exchange:
    return fields.exchange(fields.with_system(record, spoken))


@dataclass(frozen=True)
class Half:
    """A verdict with the record that it came from."""

    record: SourceRecord
    verdict: HalfPair
    metadata: dict[str, Any]
    tools: str


class Waiting:
    """Completions that wait for one with the other verdict. At worst it holds every record of a source."""

    def __init__(self) -> None:
        self._halves: dict[tuple[object, ...], deque[Half]] = {}

    def partner(self, half: Half) -> Half | None:
        """The completion that came first of those of its prompt with the other verdict; without one, this one waits.

        Each completion is in one pair at most.
        """
        other = half.verdict
        questions = (*other.history, other.prompt, *other.tool_turns, half.tools)
        # Of the two queues of a prompt one is always empty, so a record costs one look however many wait.
        waiting = self._halves.get((*questions, not other.right))
        if waiting:
            return waiting.popleft()
        self._halves.setdefault((*questions, other.right), deque()).append(half)
        return None

    def left(self) -> Iterator[Half]:
        """Halves without a partner, in the order of the records."""
        yield from sorted((half for halves in self._halves.values() for half in halves),
                          key=lambda half: half.record.number)


def joined(one: Half, other: Half) -> tuple[PairParts, dict[str, Any], int]:
    """The pair of two completions of one prompt, its metadata and its number: those of the right one.

    What else the wrong one's record said stands in the metadata, in `of_rejected`.
    """
    right, wrong = (one, other) if one.verdict.right else (other, one)
    parts = PairParts(prompt=right.verdict.prompt, history=right.verdict.history,
                      tool_turns=right.verdict.tool_turns, chosen=right.verdict.completion,
                      rejected=wrong.verdict.completion, used=right.verdict.used)
    return parts, right.metadata | ({"of_rejected": wrong.metadata} if wrong.metadata else {}), right.record.number
