"""Readers of fields for all formats: texts, turns of a conversation, and the exchange at its end.

Every function raises `ValueError` with a reason that fits behind `file:line:`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workings.data.importing.completion import lines_of
from workings.data.row_fields import kind_of

_KINDS = ("image", "audio", "video")
MEDIA = {name: kind for kind in _KINDS for name in (kind, f"{kind}s", f"{kind}_url", f"input_{kind}")}
"""Types of content parts, and keys of parts, turns and records -> what they hold."""
_FOR_READERS = {"image": "an image", "audio": "audio", "video": "video"}


def refuse_media(record: Mapping[str, Any], where: str, kind: object = "") -> None:
    """Raise `ValueError` where a record, a turn or a part of its content holds an image, audio or video.

    Args:
        record: one of them.
        where: the place of it, for the message.
        kind: the `type` of a part; elsewhere a key of that name means something else.
    """
    # Columns of parquet and of the Hub have every key in every row, with nothing in those that are not meant.
    keys = [key for key, value in record.items() if key in MEDIA and value]
    if isinstance(kind, str) and kind in MEDIA:
        keys.insert(0, kind)
    if keys:
        raise ValueError(f"{_FOR_READERS[MEDIA[keys[0]]]} (`{keys[0]}`) in {where}: only text can be learned from, "
                         "and the text alone would say something else")


_ROLES = {"system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant",
          "model": "assistant", "bot": "assistant", "chatgpt": "assistant"}

Turn = tuple[str, str, tuple[str, ...]]
"""Role, text, and the reasoning that stands beside the text."""
SHAREGPT = ("from", "value")
"""Keys of a turn's role and text as ShareGPT writes them."""
OPENAI = ("role", "content")
"""Keys of role and text in most other formats."""
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Keys of reasoning that stands beside a text."""
_TEXT_PARTS, _TEXT_KEYS = ("text", "input_text", "output_text"), ("text", "value")
_REASONING_PARTS = ("reasoning", "thinking")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts that every format finds in a record."""

    prompt: str
    history: Sequence[tuple[str, str]] = ()
    used: frozenset[str]
    """Keys of the record that are in the parts; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""


def keys_of(record: Mapping[str, Any]) -> str:
    """The record's keys, for messages."""
    return ", ".join(f"`{str(key)[:40]}`" for key in list(record)[:12]) or "no keys"


def text(record: Mapping[str, Any], key: str) -> str:
    """A text that has to be there, or a number as a text."""
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {keys_of(record)}")
    # Answers are often numbers; of 4.0 in a column of a frame 4 is meant.
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(int(value) if value == int(value) else value)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    return value


def optional(record: Mapping[str, Any], key: str) -> str:
    """A text that may be absent: empty then."""
    return "" if record.get(key) is None else text(record, key)


def one_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The key that the record has; where it has several, their values are equal."""
    present = [key for key in keys if record.get(key) is not None]
    if not present:
        raise ValueError(f"{' or '.join(f'`{key}`' for key in keys)} is missing; the record has {keys_of(record)}")
    # Two spellings with different texts: taking either would be a guess about what to train on.
    if any(record[key] != record[present[0]] for key in present):
        what = "answers" if "answer" in keys else "questions"
        raise ValueError(f"two {what}: {' and '.join(f'`{key}`' for key in present)} differ")
    return present[0]


def turns(record: Mapping[str, Any], key: str, names: tuple[str, str] = OPENAI) -> list[Turn]:
    """The turns of a list; ``names`` are the keys of a turn's role and text."""
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {keys_of(record)}")
    if not isinstance(value, list):
        raise ValueError(f"`{key}` must be a list of turns, not {kind_of(value)}")
    return [turn_of(turn, names, f"turn {number} of `{key}`") for number, turn in enumerate(value, start=1)]


def turn_of(turn: object, names: tuple[str, str], where: str) -> Turn:
    """One turn of a person or a model; ``where`` it stands, for messages."""
    role_key, text_key = names
    if not isinstance(turn, dict):
        raise ValueError(f"a turn must be an object, not {kind_of(turn)}")
    refuse_media(turn, where)
    role = _ROLES.get(text(turn, role_key))
    if role is None or turn.get("tool_calls"):
        raise ValueError(f"a turn of a tool: role {turn[role_key]!r}; only system, user and assistant are read")
    content = turn.get(text_key)
    content_text, thought = _parts(content, where) if isinstance(content, list) else (text(turn, text_key), "")
    beside = next((reasoning for key in REASONING_KEYS if (reasoning := optional(turn, key))), "")
    # Two texts, either of which could be what the model thought: taking one would be a guess.
    if thought and beside and lines_of(thought) != lines_of(beside):
        raise ValueError(f"two different reasonings in {where}: a part of its content, and a field beside it")
    return role, content_text, lines_of(thought or beside)


def _parts(content: Sequence[object], where: str) -> tuple[str, str]:
    """Text and reasoning of a turn's content parts, as multimodal chats and reasoning models write them."""
    content_text, thought = "", []
    for part in content:
        if not isinstance(part, dict):
            raise ValueError(f"a part of the content of {where} must be an object, not {kind_of(part)}")
        kind = part.get("type")
        refuse_media(part, where, kind)
        if kind in _TEXT_PARTS:
            content_text += _part_text(part, _TEXT_KEYS)
        elif kind in _REASONING_PARTS:
            # What is thought behind a text belongs to no place of a trace, whose steps come first.
            if content_text.strip():
                raise ValueError(f"reasoning behind a text in {where}: which part is the answer is not clear")
            thought.append(_part_text(part, (*_TEXT_KEYS, *_REASONING_PARTS)))
        else:
            raise ValueError(f"something else than text and reasoning in {where}: a part of type {kind!r}")
    return content_text, "\n".join(thought)


def _part_text(part: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    present = [key for key in keys if part.get(key) is not None]
    if not present:
        raise ValueError(f"a part of type {part['type']!r} has no {' or '.join(f'`{key}`' for key in keys)}; it has "
                         f"{keys_of(part)}")
    if any(part[key] != part[present[0]] for key in present):
        raise ValueError(f"a part of type {part['type']!r} has two texts: {' and '.join(map('`{}`'.format, present))} "
                         "differ")
    return text(part, present[0])


def system_turn(record: Mapping[str, Any]) -> list[Turn]:
    """The turn that `system` stands for, where it is there."""
    system = optional(record, "system")
    return [("system", system, ())] if system else []


def alpaca_prompt(record: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Prompt and earlier turns of `instruction`, `input`, `system` and `history` as pairs of texts."""
    extra, pairs = optional(record, "input"), record.get("history") or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 and
                                              all(isinstance(turn_text, str) for turn_text in pair) for pair in pairs):
        raise ValueError("`history` must be a list of pairs of texts")
    instruction, system = text(record, "instruction"), optional(record, "system")
    earlier = [turn for question, answered in pairs for turn in (("user", question), ("assistant", answered))]
    return (f"{instruction}\n\n{extra}" if extra.strip() else instruction,
            [*([("system", system)] if system else []), *earlier])


ALPACA = frozenset({"instruction", "input", "system", "history"})
"""Keys that `alpaca_prompt` reads."""


@dataclass(frozen=True)
class Exchange:
    """The last question of a conversation with its answer."""

    history: list[tuple[str, str]]
    """Earlier turns as (role, text)."""
    prompt: str
    completion: str
    beside: tuple[str, ...]
    """Reasoning that stands beside the completion, as lines."""
    reasoning_left_out: int = 0
    """Earlier turns that had such reasoning; a history does not keep it."""


def exchange(conversation: Sequence[Turn]) -> Exchange:
    """The end of a conversation that alternates and ends with the assistant."""
    roles = [role for role, *_ in conversation]
    spoken = roles[1:] if roles[:1] == ["system"] else roles
    if not spoken or spoken[-1] != "assistant":
        raise ValueError("the last turn is not the assistant's, so there is nothing to learn")
    # Most chat templates refuse any other order, long after the import; here the record can still be named.
    if spoken != ["user", "assistant"] * (len(spoken) // 2):
        raise ValueError(f"turns must alternate user, assistant; they are {', '.join(spoken[:12])}")
    *earlier, (_, prompt, _), (_, completion, beside) = conversation
    left_out = sum(bool(thought) for _, _, thought in earlier)
    return Exchange([(role, turn_text) for role, turn_text, _ in earlier], prompt, completion, beside, left_out)
