"""Prompts of rollouts: questions with an expected answer, as tokens, in a reproducible order."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from workings.data.batches import Position
from workings.data.epoch_plan import epoch_order
from workings.data.rows import Dropped, index_digest, prompt_digest
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate
from workings.record.canonical import line
from workings.record.redact import cleaned
from workings.scoring.items import Item, item_from_json


@dataclass(frozen=True)
class Prompt:
    """A question, and the tokens that the chat template makes of it, BOS included."""

    item: Item
    tokens: tuple[int, ...]

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the item's canonical JSON and of the tokens (int32, little-endian)."""
        # With the item, because the expected answer decides the rewards.
        return hashlib.sha256(line(self.item.to_json()) + np.array(self.tokens, "<i4").tobytes()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The prompt as a line of the record."""
        return {"id": self.item.id, "status": "kept", "item": self.item.to_json(), "tokens": list(self.tokens),
                "prompt_digest": prompt_digest(self.item.prompt)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Prompt":
        """Reads a line of the record. Raises `RecordError`."""
        try:
            item, tokens = item_from_json(record["item"]), record["tokens"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"not a prompt: {str(error)[:80]}") from None
        if item.id != record.get("id") or not isinstance(tokens, list) or not tokens or any(
                # Batches hold tokens as int32.
                type(token) is not int or not 0 <= token < 2**31 for token in tokens):
            raise RecordError(f"prompt {str(record.get('id'))[:60]!r}: the id does not match its item, or \"tokens\" "
                              "is not a non-empty list of token ids below 2**31")
        return cls(item, tuple(tokens))


@dataclass(frozen=True)
class PromptTurn:
    """A prompt's turn in the order of a run."""

    epoch: int
    prompt: Prompt


@dataclass(frozen=True)
class PromptSet:
    """All prompts of a run. Their order is `workings.data.epoch_plan.epoch_order`, epoch after epoch."""

    prompts: Sequence[Prompt]
    dropped: tuple[Dropped, ...]
    seed: int

    @cached_property
    def digest(self) -> str:
        """SHA-256, as hex, over ids and digests of the prompts, sorted by id."""
        return index_digest((prompt.item.id, prompt.digest) for prompt in self.prompts)

    @cached_property
    def by_id(self) -> dict[str, Prompt]:
        """The prompts by the ids of their items."""
        return {prompt.item.id: prompt for prompt in self.prompts}

    @property
    def index_bytes(self) -> bytes:
        """Contents of the record's file of prompts: canonical JSON lines, cleaned as the recorder cleans all files."""
        rows = [prompt.to_json() for prompt in self.prompts] + [
            {"id": row.id, "status": "dropped", "reason": row.reason} for row in self.dropped]
        text: str = cleaned("".join(line(row).decode() for row in rows))
        return text.encode()

    def take(self, position: Position, count: int) -> tuple[list[PromptTurn], Position]:
        """The next prompts, and where those after them start. Raises `RecordError` for a position of other data."""
        if position.batch >= len(self.prompts):
            raise RecordError(f"data position {position}: an epoch has {len(self.prompts)} prompts only")
        turns: list[PromptTurn] = []
        ids = tuple(prompt.item.id for prompt in self.prompts)
        epoch, start = position.epoch, position.batch
        # A rollout may end one epoch and begin the next: no prompt is left over where an epoch does not divide.
        while len(turns) < count:
            indices = _order(ids, self.seed, epoch)[start:start + count - len(turns)]
            turns += [PromptTurn(epoch, self.prompts[index]) for index in indices]
            start += len(indices)
            if start == len(self.prompts):
                epoch, start = epoch + 1, 0
        return turns, Position(epoch, start)


@lru_cache(maxsize=2)
def _order(ids: tuple[str, ...], seed: int, epoch: int) -> list[int]:
    return epoch_order(ids, seed, epoch).tolist()


def build_prompts(items: Sequence[Item], template: ChatTemplate, *, seed: int, longest: int, drop: bool) -> PromptSet:
    """Makes prompts of questions, in their order; ``drop``: leave those of more than ``longest`` tokens out.

    Raises `RequestError` if a prompt is too long, an id comes twice, or none is left.
    """
    prompts: list[Prompt] = []
    dropped: list[Dropped] = []
    for item in items:
        tokens = template.prompt_ids(item.prompt, item.history)
        if len(tokens) <= longest:
            prompts.append(Prompt(item, tuple(tokens)))
            continue
        reason = f"{len(tokens)} tokens, and data.max_length leaves {longest} next to algorithm.max_new_tokens"
        if not drop:
            raise RequestError(f"prompt {item.id} is too long: {reason}",
                               "room for the prompt and the longest completion",
                               "a larger data.max_length, or data.over_length=drop")
        dropped.append(Dropped(item.id, len(tokens), reason))
    if len({prompt.item.id for prompt in prompts}) != len(prompts):
        raise RequestError("an id comes twice among the prompts", "unique ids: they decide order and seeds",
                           "workings data check --fix")
    if not prompts:
        raise RequestError(f"all {len(dropped)} prompts are too long", "at least one prompt",
                           "a larger data.max_length")
    return PromptSet(tuple(prompts), tuple(dropped), seed)


def refuse_evaluation_items(prompts: Sequence[Prompt], items: Sequence[Item]) -> None:
    """Raises `RequestError` if a prompt is an evaluation item as well."""
    evaluated = {prompt_digest(item.prompt) for item in items}
    if shared := [prompt.item.id for prompt in prompts if prompt_digest(prompt.item.prompt) in evaluated]:
        raise RequestError(f"{len(shared)} prompts are evaluation items as well: {', '.join(shared[:3])}",
                           "prompts that are not used for evaluation", "other questions in data.traces")


def read_recorded_prompts(rows: Sequence[dict[str, Any]], seed: int) -> PromptSet:
    """Reads the prompts of a record. Raises `RecordError`."""
    prompts = [Prompt.from_json(row) for row in rows if row.get("status") == "kept"]
    if not prompts or len({prompt.item.id for prompt in prompts}) != len(prompts):
        raise RecordError("no prompts, or a duplicate id")
    return PromptSet(tuple(prompts), (), seed)

