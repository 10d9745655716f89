"""One function a format: a parsed record in, the parts of a trace out.

A missing field is never replaced by another one: a reader that falls back to the question where the answer should be
trains a model on questions. What a format does not name is kept as metadata.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from workings.data.columns import SYSTEM
from workings.data.importing import fields
from workings.data.importing.completion import lines_of, split_any, split_hashes, split_tagged
from workings.data.importing.fields import SHAREGPT, Parts, Said
from workings.data.row_fields import history_of, kind_of
from workings.models.turns import Turn

_QUESTIONS = ("prompt", "question", "instruction", "problem")
_TAGGED = ("completion", "response", "output", "answer", "text")
_ANSWERS = ("answer", "solution", "response", "output", "completion")
_GROUPED = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class TraceParts(Parts):
    """The parts of a record of traces."""

    steps: Sequence[str]
    answer: str
    calls: str = ""
    """Calls of tools with which the answer ends."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a field of its own, which a history does not keep."""


Format = Callable[[Mapping[str, Any]], TraceParts]


def _gsm8k(record: Mapping[str, Any]) -> TraceParts:
    """`question`, and `answer` with a line a step and `#### answer` at the end."""
    steps, answer = split_hashes(fields.text(record, "answer"))
    return TraceParts(prompt=fields.text(record, "question"), steps=steps, answer=_number(answer),
                      history=_system(record), used=frozenset({"question", "answer", *SYSTEM}))


def _messages(record: Mapping[str, Any]) -> TraceParts:
    """`messages`: turns with `role` and `content`; the last one is the assistant's, the others become `history`."""
    return _conversation(record, fields.turns(record, "messages"), {"messages"})


def _sharegpt(record: Mapping[str, Any]) -> TraceParts:
    """`conversations`: turns with `from` and `value`."""
    return _conversation(record, fields.turns(record, "conversations", SHAREGPT), {"conversations"})


def _prompt_completion(record: Mapping[str, Any]) -> TraceParts:
    """`prompt` and `completion`, both texts or both lists of turns."""
    if isinstance(record.get("prompt"), list) or isinstance(record.get("completion"), list):
        spoken = fields.turns(record, "prompt") + fields.turns(record, "completion")
        return _conversation(record, spoken, {"prompt", "completion"})
    return _asked_and_told(record, fields.text(record, "prompt"), "completion", {"prompt"})


def whole_completion(record: Mapping[str, Any]) -> TraceParts:
    """`prompt` and `completion` with the completion unchanged: an answer without steps."""
    parts = _prompt_completion(record)
    if isinstance(record["completion"], str):
        completion, is_split = record["completion"], bool(_reasoning_key(record))
    else:
        said = fields.turns(record, "completion")[-1]
        completion, is_split = said.turn.text, bool(said.beside)
    if is_split:
        raise ValueError("the completion's reasoning is in another field, so there is no single text to keep")
    return replace(parts, steps=(), answer=completion)


def _question_answer(record: Mapping[str, Any]) -> TraceParts:
    """A question and one text with its answer, under any of their usual keys."""
    question_key, answer_key = fields.one_of(record, _QUESTIONS), fields.one_of(record, _ANSWERS)
    return _asked_and_told(record, fields.text(record, question_key), answer_key, {question_key})


def _alpaca(record: Mapping[str, Any]) -> TraceParts:
    """`instruction`, `input` (may be empty or absent), `output`; `system` and `history` as pairs may be there."""
    prompt, history = fields.alpaca_prompt(record)
    return replace(_asked_and_told(record, prompt, "output", fields.ALPACA), history=history)


def _tagged(record: Mapping[str, Any]) -> TraceParts:
    """A question, and one text with `<think>` or `<reasoning>` and `<answer>` tags."""
    question_key, answer_key = fields.one_of(record, _QUESTIONS), fields.one_of(record, _TAGGED)
    steps, answer = split_tagged(fields.text(record, answer_key))
    return TraceParts(prompt=fields.text(record, question_key), steps=steps, answer=answer, history=_system(record),
                      used=frozenset({question_key, answer_key, *SYSTEM}))


def _traces(record: Mapping[str, Any]) -> TraceParts:
    """`prompt` or `question`; `steps` as texts or as `{type, content}`; `answer` or `final_answer`; `metadata`."""
    question_key, answer_key = fields.one_of(record, ("prompt", "question")), fields.one_of(record,
                                                                                            ("answer", "final_answer"))
    if "steps" not in record:
        raise ValueError(f"`steps` is missing; the record has {fields.keys_of(record)}")
    steps, kinds = _steps(record["steps"])
    own = record.get("metadata") or {}
    if not isinstance(own, dict):
        raise ValueError(f"`metadata` must be an object, not {kind_of(own)}")
    earlier = history_of(record["history"]) if record.get("history") else ()
    between = history_of(record["tool_turns"], "tool_turns") if record.get("tool_turns") else ()
    # Where both spellings of the answer are there they are equal, and the second is not metadata either.
    used = {question_key, answer_key, "steps", "history", "tool_turns", "metadata", *SYSTEM} | {
        key for key in ("answer", "final_answer") if key in record}
    return TraceParts(prompt=fields.text(record, question_key), steps=steps, answer=fields.text(record, answer_key),
                      history=[*_system(record), *earlier], tool_turns=between, used=frozenset(used),
                      metadata=own | ({"step_types": kinds} if any(kinds) else {}))


FORMATS: dict[str, Format] = {
    "gsm8k": _gsm8k, "messages": _messages, "prompt-completion": _prompt_completion, "alpaca": _alpaca,
    "sharegpt": _sharegpt, "tagged": _tagged, "traces": _traces, "question-answer": _question_answer,
}
"""Values of `--format` that give traces."""


def _number(answer: str) -> str:
    """A number without the commas that group its digits; any other answer as it is."""
    return answer.replace(",", "") if _GROUPED.fullmatch(answer) else answer


def _steps(steps: object) -> tuple[list[str], list[str]]:
    if isinstance(steps, str):
        return list(lines_of(steps)), []
    if not isinstance(steps, list):
        raise ValueError(f"`steps` must be a list of texts, not {kind_of(steps)}")
    # Kinds stay as long as texts, empty where none is told, because they are paired by position.
    texts, kinds = [], []
    for step in steps:
        if isinstance(step, dict):
            texts.append(fields.text(step, "content"))
            kinds.append(fields.optional(step, "type"))
        elif isinstance(step, str):
            texts.append(step)
            kinds.append("")
        else:
            raise ValueError(f"a step must be a text or an object with `content`, not {kind_of(step)}")
    return texts, kinds


def _reasoning_key(record: Mapping[str, Any]) -> str:
    """Key of a record's reasoning in a field of its own; empty without one."""
    # Of a record, unlike of a turn, such a key may say anything (a flag, a level), and is metadata then.
    return next((key for key in fields.REASONING_KEYS if isinstance(record.get(key), str) and record[key].strip()), "")


def _asked_and_told(record: Mapping[str, Any], prompt: str, answer_key: str, used: AbstractSet[str]) -> TraceParts:
    """A prompt, and the text of a key in any notation; reasoning may stand in a field beside it."""
    answer_text = fields.text(record, answer_key)
    key = _reasoning_key(record)
    steps, answer = (lines_of(record[key]), answer_text.strip()) if key else split_any(answer_text)
    return TraceParts(prompt=prompt, steps=steps, answer=answer, history=_system(record),
                      used=frozenset({*used, answer_key, key, *SYSTEM}))


def _system(record: Mapping[str, Any]) -> list[Turn]:
    return [said.turn for said in fields.system_turn(record)]


def _conversation(record: Mapping[str, Any], conversation: list[Said], used: set[str]) -> TraceParts:
    last = fields.exchange(fields.with_system(record, conversation))
    # Reasoning in a field of its own means that the text is the answer, whatever marks stand in it.
    steps, answer = ((), last.completion.strip()) if last.beside else split_any(last.completion)
    return TraceParts(prompt=last.prompt, steps=last.beside or steps, answer=answer, history=last.history,
                      tool_turns=last.tool_turns, calls=last.calls, not_learned=last.not_learned,
                      reasoning_left_out=last.reasoning_left_out, used=frozenset({*used, *SYSTEM}))
