"""One function a format: a parsed record in, the parts of a trace out.

A missing field is never replaced by another one: a reader that falls back to the question where the answer should be
trains a model on questions. What a format does not name is kept as metadata.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workings.data.importing.completion import lines_of, split_any, split_hashes, split_tagged

_GROUPED = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")
_ROLES = {"system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant",
          "model": "assistant", "bot": "assistant", "chatgpt": "assistant"}


@dataclass(frozen=True, kw_only=True)
class TraceParts:
    """What a format found in a record."""

    prompt: str
    steps: Sequence[str]
    answer: str
    history: Sequence[tuple[str, str]] = ()
    used: frozenset[str]
    """Keys of the record that are in the parts; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""


Format = Callable[[Mapping[str, Any]], TraceParts]


def _gsm8k(record: Mapping[str, Any]) -> TraceParts:
    """`question`, and `answer` with a line a step and `#### answer` at the end."""
    steps, answer = split_hashes(_text(record, "answer"))
    return TraceParts(prompt=_text(record, "question"), steps=steps, answer=_number(answer),
                      used=frozenset({"question", "answer"}))


def _messages(record: Mapping[str, Any]) -> TraceParts:
    """`messages`: turns with `role` and `content`; the last one is the assistant's and is learned."""
    return _conversation(_turns(record, "messages", "role", "content"), {"messages"})


def _sharegpt(record: Mapping[str, Any]) -> TraceParts:
    """`conversations`: turns with `from` and `value`; `system` may stand beside them."""
    turns = _turns(record, "conversations", "from", "value")
    system = _optional(record, "system")
    return _conversation([*([("system", system, ())] if system else []), *turns], {"conversations", "system"})


def _prompt_completion(record: Mapping[str, Any]) -> TraceParts:
    """`prompt` and `completion`, both texts or both lists of turns."""
    if isinstance(record.get("prompt"), list) or isinstance(record.get("completion"), list):
        turns = _turns(record, "prompt", "role", "content") + _turns(record, "completion", "role", "content")
        return _conversation(turns, {"prompt", "completion"})
    steps, answer = split_any(_text(record, "completion"))
    return TraceParts(prompt=_text(record, "prompt"), steps=steps, answer=answer,
                      used=frozenset({"prompt", "completion"}))


def _alpaca(record: Mapping[str, Any]) -> TraceParts:
    """`instruction`, `input` (may be empty or absent), `output`; `system` and `history` as pairs may be there."""
    steps, answer = split_any(_text(record, "output"))
    extra, system = _optional(record, "input"), _optional(record, "system")
    pairs = record.get("history") or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 and
                                              all(isinstance(text, str) for text in pair) for pair in pairs):
        raise ValueError("`history` must be a list of pairs of texts")
    earlier = [turn for asked, answered in pairs for turn in (("user", asked), ("assistant", answered))]
    instruction = _text(record, "instruction")
    return TraceParts(prompt=f"{instruction}\n\n{extra}" if extra.strip() else instruction, steps=steps, answer=answer,
                      history=[*([("system", system)] if system else []), *earlier],
                      used=frozenset({"instruction", "input", "output", "system", "history"}))


def _tagged(record: Mapping[str, Any]) -> TraceParts:
    """A question, and one text with `<think>` or `<reasoning>` and `<answer>` tags."""
    asked = _one_of(record, ("prompt", "question", "instruction", "problem"))
    told = _one_of(record, ("completion", "response", "output", "answer", "text"))
    steps, answer = split_tagged(_text(record, told))
    return TraceParts(prompt=_text(record, asked), steps=steps, answer=answer, used=frozenset({asked, told}))


def _traces(record: Mapping[str, Any]) -> TraceParts:
    """`prompt` or `question`; `steps` as texts or as `{type, content}`; `answer` or `final_answer`; `metadata`."""
    asked, told = _one_of(record, ("prompt", "question")), _one_of(record, ("answer", "final_answer"))
    if "steps" not in record:
        raise ValueError(f"`steps` is missing; the record has {_keys(record)}")
    steps, kinds = _steps(record["steps"])
    own = record.get("metadata") or {}
    if not isinstance(own, dict):
        raise ValueError(f"`metadata` must be an object, not {kind_of(own)}")
    history = [(role, text) for role, text, _ in _turns(record, "history", "role", "content")] \
        if record.get("history") else []
    # Where both spellings of the answer are there they are equal, and the second is no metadata either.
    used = {asked, told, "steps", "history", "metadata"} | {key for key in ("answer", "final_answer") if key in record}
    return TraceParts(prompt=_text(record, asked), steps=steps, answer=_text(record, told), history=history,
                      used=frozenset(used), metadata=own | ({"step_types": kinds} if any(kinds) else {}))


FORMATS: dict[str, Format] = {
    "gsm8k": _gsm8k, "messages": _messages, "prompt-completion": _prompt_completion, "alpaca": _alpaca,
    "sharegpt": _sharegpt, "tagged": _tagged, "traces": _traces,
}
"""The values of `--format`."""


def kind_of(value: object) -> str:
    """The kind of a JSON value, for messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _keys(record: Mapping[str, Any]) -> str:
    return ", ".join(f"`{str(key)[:40]}`" for key in list(record)[:12]) or "no keys"


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {_keys(record)}")
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    return value


def _optional(record: Mapping[str, Any], key: str) -> str:
    return "" if record.get(key) is None else _text(record, key)


def _one_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    there = [key for key in keys if record.get(key) is not None]
    if not there:
        raise ValueError(f"{' or '.join(f'`{key}`' for key in keys)} is missing; the record has {_keys(record)}")
    # Two spellings with different texts: taking either would be a guess about what to train on.
    if any(record[key] != record[there[0]] for key in there):
        what = "answers" if "answer" in keys else "questions"
        raise ValueError(f"two {what}: {' and '.join(f'`{key}`' for key in there)} differ")
    return there[0]


def _number(answer: str) -> str:
    """A number without the commas that group its digits; any other answer as it is."""
    return answer.replace(",", "") if _GROUPED.fullmatch(answer) else answer


def _steps(steps: object) -> tuple[list[str], list[str]]:
    if isinstance(steps, str):
        return list(lines_of(steps)), []
    if not isinstance(steps, list):
        raise ValueError(f"`steps` must be a list of texts, not {kind_of(steps)}")
    texts, kinds = [], []
    for step in steps:
        if isinstance(step, dict):
            texts.append(_text(step, "content"))
            kinds.append(_optional(step, "type"))
        elif isinstance(step, str):
            texts.append(step)
            kinds.append("")
        else:
            raise ValueError(f"a step must be a text or an object with `content`, not {kind_of(step)}")
    return texts, kinds


Turn = tuple[str, str, tuple[str, ...]]
"""Role, text, and the reasoning that stands beside the text."""


def _turns(record: Mapping[str, Any], key: str, role_key: str, text_key: str) -> list[Turn]:
    turns = record.get(key)
    if turns is None:
        raise ValueError(f"`{key}` is missing; the record has {_keys(record)}")
    if not isinstance(turns, list):
        raise ValueError(f"`{key}` must be a list of turns, not {kind_of(turns)}")
    return [_turn(turn, role_key, text_key) for turn in turns]


def _turn(turn: object, role_key: str, text_key: str) -> Turn:
    if not isinstance(turn, dict):
        raise ValueError(f"a turn must be an object, not {kind_of(turn)}")
    role = _ROLES.get(_text(turn, role_key))
    if role is None or turn.get("tool_calls"):
        raise ValueError(f"a turn of a tool: role {turn[role_key]!r}; a trace has system, user and assistant")
    content = turn.get(text_key)
    if isinstance(content, list):  # parts, as multimodal chats write them
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise ValueError("a turn with something else than text")
        content = "".join(_text(part, "text") for part in content)
    reasoning = _optional(turn, "reasoning_content") or _optional(turn, "thinking")
    return role, content if isinstance(content, str) else _text(turn, text_key), lines_of(reasoning)


def _conversation(turns: Sequence[Turn], used: set[str]) -> TraceParts:
    roles = [role for role, *_ in turns]
    spoken = roles[1:] if roles[:1] == ["system"] else roles
    if not spoken or spoken[-1] != "assistant":
        raise ValueError("the last turn is not the assistant's, so there is nothing to learn")
    # Most chat templates refuse any other order, long after the import; here the record can still be named.
    if spoken != ["user", "assistant"] * (len(spoken) // 2):
        raise ValueError(f"turns must alternate user, assistant; they are {', '.join(spoken[:12])}")
    *earlier, (_, prompt, _), (_, completion, beside) = turns
    # Reasoning in a field of its own means that the text is the answer, whatever marks stand in it.
    steps, answer = ((), completion.strip()) if beside else split_any(completion)
    return TraceParts(prompt=prompt, steps=beside or steps, answer=answer,
                      history=[(role, text) for role, text, _ in earlier], used=frozenset(used))
