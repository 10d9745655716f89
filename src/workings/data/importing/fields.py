"""Reads texts, turns and conversations of records, for all formats.

    {"role": "user", "content": "3+4?"}       the keys of most formats (`OPENAI`)
    {"from": "human", "value": "3+4?"}        ShareGPT's (`SHAREGPT`)

Every function raises `ValueError` with a reason to follow `file:line:`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from workings.answers.thinking import OTHER_THINKING
from workings.data.columns import MARKS, SYSTEM, TOOLS, forbids_learning, hidden_content, learned_mark, refuse_media
from workings.data.importing.completion import lines_of, split_any
from workings.data.row_fields import calls_text, kind_of, tools_text
from workings.models.turns import Turn

T = TypeVar("T")
_ROLES = {"system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant",
          "model": "assistant", "bot": "assistant", "chatgpt": "assistant", "tool": "tool", "function": "tool",
          "observation": "tool", "ipython": "tool", "function_call": "assistant"}
_MAY_FOLLOW = {"": ("system", "user"), "system": ("user",), "user": ("assistant", "call"),
               "assistant": ("user", "tool"), "call": ("tool",), "tool": ("tool", "assistant", "call")}
"""The turns that may follow a turn, or begin a conversation; a `call` is an assistant's turn that calls tools."""
ALPACA = frozenset({"instruction", "input", "history"})
"""Keys that `alpaca` reads."""


@dataclass(frozen=True)
class SourceTurn:
    """One turn as a file has it."""

    turn: Turn
    reasoning: tuple[str, ...] = ()
    """Reasoning in another field than the text, as lines."""
    where: str = ""
    """Place in the record, for messages; empty for a column's text."""

    @property
    def kind(self) -> str:
        """The key of `_MAY_FOLLOW`."""
        return "call" if self.turn.has_calls else self.turn.role


def text_turn(role: str, turn_text: str, reasoning: tuple[str, ...] = ()) -> SourceTurn:
    """A turn that is only a text."""
    return SourceTurn(Turn(role, turn_text), reasoning)


class TurnKeys(NamedTuple):
    """The keys under which a turn has its role and its text."""

    role: str
    text: str


SHAREGPT = TurnKeys("from", "value")
OPENAI = TurnKeys("role", "content")
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Keys of reasoning next to a text."""
_READ_KEYS = frozenset((*OPENAI, *SHAREGPT, *REASONING_KEYS, *MARKS, "tool_calls", "tool_call_id", "function_call"))
_EMPTY: tuple[object, ...] = (None, "", [], {})
_TEXT_PARTS, _TEXT_KEYS = ("text", "input_text", "output_text"), ("text", "value")
_REASONING_PARTS = ("reasoning", "thinking")
_ENDS_OF_THINKING = ("</think>", "</reasoning>", "<channel|>", *OTHER_THINKING.values())


def keys_of(record: Mapping[str, Any]) -> str:
    """The record's keys, for messages."""
    return ", ".join(f"`{str(key)[:40]}`" for key in list(record)[:12]) or "no keys"


def text(record: Mapping[str, Any], key: str) -> str:
    """A required text, or a number as text."""
    value = required(record, key)
    # Answers are often numbers, and 4.0 in a column of a frame means 4.
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(int(value) if value == int(value) else value)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    return value


def required(record: Mapping[str, Any], key: str) -> Any:
    """A value of any kind that must not be null."""
    if key in record and record[key] is None:
        raise ValueError(f"`{key}` is null")
    if key not in record:
        raise ValueError(f"`{key}` is missing; the record has {keys_of(record)}")
    return record[key]


def optional(record: Mapping[str, Any], key: str) -> str:
    """A text that may be absent: empty then."""
    return "" if record.get(key) is None else text(record, key)


def one_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The first of these keys that the record has; several must have equal values."""
    present = {key: record[key] for key in keys if record.get(key) is not None}
    if not present:
        for key in keys:
            if key in record:
                raise ValueError(f"`{key}` is null")
        raise ValueError(f"{' or '.join(f'`{key}`' for key in keys)} is missing; the record has {keys_of(record)}")
    _shared(present, "answers" if "answer" in keys else "questions")
    return next(iter(present))


def _shared(values: Mapping[str, T], what: str) -> T | None:
    """The value of several keys; None without keys. Raises `ValueError` if they differ: taking one would be a guess."""
    first = next(iter(values.values()), None)
    if any(value != first for value in values.values()):
        raise ValueError(f"two {what}: {' and '.join(f'`{key}`' for key in values)} differ")
    return first


def turns(record: Mapping[str, Any], key: str, keys: TurnKeys = OPENAI) -> list[SourceTurn]:
    """The turns in the list under a key of a record."""
    value = required(record, key)
    if not isinstance(value, list):
        raise ValueError(f"`{key}` must be a list of turns, not {kind_of(value)}")
    if not value:
        raise ValueError(f"`{key}` is empty")
    return [turn_of(turn, keys, f"turn {number} of `{key}`") for number, turn in enumerate(value, start=1)]


def unread_turn_keys(record: Mapping[str, Any]) -> Iterator[str]:
    """Unread keys of a record's turns, once for each turn with a value."""
    for value in record.values():
        for turn in value if isinstance(value, list) else ():
            role = turn.get("role", turn.get("from")) if isinstance(turn, dict) else None
            if role is None:
                continue
            read = _READ_KEYS | {"name"} if _ROLES.get(str(role)) == "tool" else _READ_KEYS
            yield from (key for key, content in turn.items() if key not in read and content not in _EMPTY)


def turn_of(turn: object, keys: TurnKeys, where: str) -> SourceTurn:
    """One turn; ``where`` it is, for messages."""
    if not isinstance(turn, dict):
        raise ValueError(f"{where} must be an object, not {kind_of(turn)}")
    refuse_media(turn, where)
    try:
        return _read_turn(turn, keys, where)
    except ValueError as error:
        raise ValueError(str(error) if where in str(error) else f"{error} in {where}") from None


def _read_turn(turn: dict[str, Any], keys: TurnKeys, where: str) -> SourceTurn:
    written_role = text(turn, keys.role)
    role = _ROLES.get(written_role)
    if role is None:
        raise ValueError(f"{where} has an unknown role {written_role!r}; the roles are "
                         f"{', '.join(dict.fromkeys(_ROLES.values()))}")
    more = _more(turn, written_role, keys.text)
    calls = calls_text(more)
    content = turn.get(keys.text)
    has_only_calls = "tool_calls" in more and (content is None or written_role == "function_call")
    if has_only_calls or content == "":
        content_text, thought = "", ""
    elif isinstance(content, list):
        content_text, thought = _parts(content, where)
    else:
        content_text, thought = text(turn, keys.text), ""
    learned = learned_mark(turn, where)
    for key, value in turn.items():
        if forbids_learning(key, value):
            raise ValueError(f"{where} is marked `{key}: {value}`; marks that are read are `train` and `weight`")
    if role != "tool":
        has_reasoning = bool(thought or any(turn.get(name) for name in REASONING_KEYS))
        _refuse_hidden(turn, content_text, has_reasoning, where)
    if role == "assistant":
        content_text, reasoning = one_reasoning(turn, content_text, where, thought)
        return SourceTurn(Turn(role, content_text, learned, calls), reasoning, where)
    if any(turn.get(key) in (1, "true") for key in MARKS):
        raise ValueError(f"{where} ({role}) is marked as learned; only turns of the assistant are learned")
    return SourceTurn(Turn(role, content_text, True, calls), (), where)


def _refuse_hidden(turn: Mapping[str, Any], content: str, has_reasoning: bool, where: str) -> None:
    """Raise `ValueError` for a key that the model would not see although the answer depends on it."""
    for key, value in turn.items():
        if key in _READ_KEYS or value in _EMPTY or value in ("[]", "{}"):
            continue
        looks_like = hidden_content(key, value, content, has_reasoning)
        if looks_like is not None:
            raise ValueError(f"`{key}` of {where} looks like {looks_like}, but the model would not see it; move it or "
                             "remove it")


def _more(turn: Mapping[str, Any], written_role: str, text_key: str) -> dict[str, Any]:
    """A turn's further fields for chat templates: tool calls, or a tool's name."""
    # Templates write only the name of a tool, not that of a user.
    read = {"assistant": ("tool_calls", "tool_call_id"), "tool": ("name", "tool_call_id")}
    more = {key: turn[key] for key in read.get(_ROLES[written_role], ("tool_call_id",)) if turn.get(key)}
    if turn.get("function_call"):
        more["tool_calls"] = [{"function": turn["function_call"]}]
    if written_role == "function_call":
        try:
            called = json.loads(text(turn, text_key))
        except json.JSONDecodeError:
            raise ValueError("a function call that is not JSON") from None
        more["tool_calls"] = called if isinstance(called, list) else [called]
    return more


def one_reasoning(given: Mapping[str, Any], content: str, where: str, thought: str = "") -> tuple[str, tuple[str, ...]]:
    """A text without its reasoning, and the lines of the reasoning.

    Reasoning may be in fields next to the text (``given``: those of `REASONING_KEYS`), in separate parts of the text
    (``thought``), and between tags in the text. Raises `ValueError` if these differ. Without fields and parts the text
    is returned as it is.
    """
    by_source = {key: lines_of(optional(given, key)) for key in REASONING_KEYS if optional(given, key).strip()}
    if thought.strip():
        by_source["a part of its content"] = lines_of(thought)
    if not by_source:
        return content, ()
    inline, answer = split_any(content)
    if inline and any(mark in content for mark in _ENDS_OF_THINKING):
        content, by_source["its text"] = answer, inline
    if len(set(by_source.values())) > 1:
        raise ValueError(f"two different reasonings in {where}: {' and '.join(by_source)}")
    return content, next(iter(by_source.values()))


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
            # A trace's steps come first, so thinking after a text has no place.
            if content_text.strip():
                raise ValueError(f"reasoning after a text in {where}: it is unclear which part is the answer")
            thought.append(_part_text(part, (*_TEXT_KEYS, *_REASONING_PARTS)))
        else:
            raise ValueError(f"something else than text and reasoning in {where}: a part of type {kind!r}")
    return content_text, "\n".join(thought)


def _part_text(part: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    present = {key: text(part, key) for key in keys if part.get(key) is not None}
    if not present:
        raise ValueError(f"a part of type {part['type']!r} has no {' or '.join(f'`{key}`' for key in keys)}; it has "
                         f"{keys_of(part)}")
    return _shared(present, f"texts of a part of type {part['type']!r}") or ""


def with_system(record: Mapping[str, Any], spoken: list[SourceTurn]) -> list[SourceTurn]:
    """A conversation with the record's system text as its first turn, unless it begins with that very text."""
    system = _shared({key: optional(record, key) for key in SYSTEM if optional(record, key).strip()}, "system texts")
    if not system:
        return spoken
    if not spoken or spoken[0].turn.role != "system":
        return [text_turn("system", system), *spoken]
    if spoken[0].turn.text.strip() != system.strip():
        raise ValueError("two system texts: a column, and the first turn")
    return spoken


def tools_of(record: Mapping[str, Any]) -> str:
    """Tool descriptions under any known key, as JSON; empty without any."""
    return _shared({key: tools_text(record[key]) for key in TOOLS if record.get(key)}, "lists of tools") or ""


def alpaca(record: Mapping[str, Any]) -> list[SourceTurn]:
    """The turns of `history` as pairs of texts, then `instruction` followed by `input`."""
    extra = optional(record, "input")
    pairs = record.get("history") or []
    spoken: list[SourceTurn] = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        match pair:
            case [str(question), str(answer)]:
                spoken += [text_turn("user", question), text_turn("assistant", answer)]
            case _:
                raise ValueError("`history` must be a list of pairs of texts")
    instruction = text(record, "instruction")
    if not instruction.strip():
        raise ValueError("`instruction` is empty")
    return [*spoken, text_turn("user", f"{instruction}\n\n{extra}" if extra.strip() else instruction)]


@dataclass(frozen=True)
class Exchange:
    """The last question of a conversation with its answer."""

    asked: dict[str, Any]
    """Everything before the completion, under the keys of a trace or a pair."""
    completion: str
    reasoning: tuple[str, ...]
    """Reasoning in another field than the completion, as lines."""
    reasoning_left_out: int
    calls: str
    """Calls of tools with which the completion ends; see `workings.data.traces.Trace.calls`."""
    not_learned: Sequence[Turn]


def exchange(conversation: Sequence[SourceTurn]) -> Exchange:
    """The assistant's last learnable turn and all before it. Turns must alternate, and the last be the assistant's."""
    kinds = [source.kind for source in conversation]
    if not conversation or kinds[-1] not in ("assistant", "call"):
        raise ValueError("the last turn is not the assistant's, so there is nothing to learn")
    # Most chat templates refuse any other order, long after the import; here the record can still be named.
    for before, kind, source in zip(("", *kinds), kinds, conversation, strict=False):
        if kind not in _MAY_FOLLOW[before]:
            is_after_call = before == "call"
            wrong = "the assistant calls a tool, whose answer must follow, not" if is_after_call else "out of order is"
            raise ValueError("turns must alternate user, assistant, after one system turn at most; "
                             f"{wrong} {source.where} ({source.turn.role})")
    learnable = [index for index, source in enumerate(conversation)
                 if source.turn.role == "assistant" and source.turn.learned]
    if not learnable:
        raise ValueError("every turn of the assistant is marked as not to be learned")
    end = learnable[-1]
    question = max(index for index in range(end) if kinds[index] == "user")
    earlier, between, last = conversation[:question], conversation[question + 1:end], conversation[end]
    asked: dict[str, Any] = {"prompt": conversation[question].turn.text}
    if earlier:
        asked["history"] = [source.turn.to_json() for source in earlier]
    if between:
        asked["tool_turns"] = [source.turn.to_json() for source in between]
    return Exchange(asked=asked, completion=last.turn.text, reasoning=last.reasoning, calls=last.turn.more,
                    reasoning_left_out=sum(bool(source.reasoning) for source in (*earlier, *between)),
                    not_learned=[source.turn for source in conversation[end + 1:]])
