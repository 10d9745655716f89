"""Formats of traces: how a record becomes a conversation, and its last turn steps and an answer.

A missing field is never replaced by another one: a reader that falls back to the question where the answer should be
trains a model on questions.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from workings.data.columns import SYSTEM, refuse_keys_with_text
from workings.data.importing import fields
from workings.data.importing.completion import lines_of, split_any, split_hashes
from workings.data.importing.convert import Keys, Parts, Record
from workings.data.importing.fields import ALPACA, Said, said
from workings.data.row_fields import history_of, kind_of

Split = Callable[[str], tuple[Sequence[str], str]]
_GROUPED = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")


def _trace(record: Record, conversation: list[Said], used: Keys, split: Split = split_any) -> Parts:
    """The trace of a conversation; ``split`` takes a text apart that has no reasoning in another field."""
    end = fields.exchange(fields.with_system(record, conversation))
    steps, answer = (end.reasoning, end.completion.strip()) if end.reasoning else split(end.completion)
    return Parts(values={**end.asked, "steps": list(steps), "answer": answer, **json.loads(end.calls or "{}")},
                 not_learned=end.not_learned, reasoning_left_out=end.reasoning_left_out,
                 used=frozenset({*used, *SYSTEM}))


def turns(key: str, names: tuple[str, str], record: Record) -> Parts:
    """A list of turns; ``names`` are the keys of role and text."""
    return _trace(record, fields.turns(record, key, names), {key})


def text(questions: tuple[str, ...], answers: tuple[str, ...], split: Split, record: Record) -> Parts:
    """A question and one text with its answer; reasoning may be in another field."""
    question_key, answer_key = fields.one_of(record, questions), fields.one_of(record, answers)
    return _trace(record, *_asked_and_told(record, [said("user", fields.text(record, question_key))], {question_key},
                                           answer_key, any_form=split is split_any), split)


def raw_text(record: Record) -> Parts:
    """A text that is learned whole; nothing in the record may ask or answer."""
    refuse_keys_with_text(record)
    return Parts(values={"text": fields.text(record, "text")}, used=frozenset({"text"}))


def _asked_and_told(record: Record, asked: list[Said], used: Keys, answer_key: str, *,
                    any_form: bool = True) -> tuple[list[Said], set[str]]:
    """A conversation that ends with the text of a key, and the keys that were read."""
    # Of a record, unlike of a turn, such a key may say anything (a flag, a level), and is metadata then.
    key = next((key for key in fields.REASONING_KEYS if any_form and isinstance(record.get(key), str)
                and record[key].strip()), "")
    told, reasoning = fields.one_reasoning({key: record[key]} if key else {}, fields.text(record, answer_key),
                                           "the record")
    return [*asked, said("assistant", told, reasoning)], {*used, answer_key, key}


def prompt_completion(record: Record, split: Split = split_any) -> Parts:
    """`prompt` and `completion`, both texts or both lists of turns."""
    if isinstance(record.get("prompt"), list) or isinstance(record.get("completion"), list):
        return _trace(record, fields.turns(record, "prompt") + fields.turns(record, "completion"),
                      {"prompt", "completion"}, split)
    asked = [said("user", fields.text(record, "prompt"))]
    return _trace(record, *_asked_and_told(record, asked, {"prompt"}, "completion"), split)


def whole_completion(record: Record) -> Parts:
    """`prompt-completion` with the completion unchanged: an answer without steps."""
    parts = prompt_completion(record, lambda text: ((), text))
    if parts.values["steps"]:
        raise ValueError("the completion's reasoning is in another field, so there is no single text to keep")
    return parts


def alpaca(record: Record) -> Parts:
    """`instruction`, `input` (may be empty or absent), `output`, and optional `history` as pairs."""
    return _trace(record, *_asked_and_told(record, fields.alpaca(record), ALPACA, "output"))


def gsm8k_answer(text: str) -> tuple[Sequence[str], str]:
    """Steps and answer of a text that ends with `#### answer`."""
    steps, answer = split_hashes(text)
    # A number without the commas that group its digits; any other answer as it is.
    return steps, answer.replace(",", "") if _GROUPED.fullmatch(answer) else answer


def traces(record: Record) -> Parts:
    """The form that everything else reads, with other common names of its keys."""
    question_key, answer_key = fields.one_of(record, ("prompt", "question")), fields.one_of(record,
                                                                                            ("answer", "final_answer"))
    if "steps" not in record:
        raise ValueError(f"`steps` is missing; the record has {fields.keys_of(record)}")
    steps, kinds = _steps(record["steps"])
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ValueError(f"`metadata` must be an object, not {kind_of(metadata)}")
    answer, _ = fields.one_reasoning({"reasoning": "\n".join(steps)}, fields.text(record, answer_key), "the record")
    values = {"prompt": fields.text(record, question_key), "steps": steps, "answer": answer}
    parts = in_own_form(record, values, {question_key, answer_key, "steps", "metadata"})
    # If both spellings of the answer exist, they are equal, and neither is metadata.
    used = parts.used | {key for key in ("answer", "final_answer") if key in record}
    return Parts(values=parts.values, used=used, metadata=metadata | ({"step_types": kinds} if any(kinds) else {}))


def in_own_form(record: Record, values: dict[str, Any], used: set[str]) -> Parts:
    """A record in this package's form, with its turns unchanged."""
    spoken = {name: history_of(record[name], name) for name in ("history", "tool_turns") if record.get(name)}
    system = [one.turn for one in fields.with_system(record, [])]
    if system:
        spoken["history"] = (*system, *spoken.get("history", ()))
    return Parts(values=values | {name: [turn.to_json() for turn in each] for name, each in spoken.items()},
                 used=frozenset({*used, "history", "tool_turns", *SYSTEM}))


def _steps(steps: object) -> tuple[list[str], list[str]]:
    if isinstance(steps, str):
        return list(lines_of(steps)), []
    if not isinstance(steps, list):
        raise ValueError(f"`steps` must be a list of texts, not {kind_of(steps)}")
    # One kind per text, maybe empty, because they are paired by position.
    texts, kinds = [], []
    for step in steps:
        if not isinstance(step, dict | str):
            raise ValueError(f"a step must be a text or an object with `content`, not {kind_of(step)}")
        texts.append(fields.text(step, "content") if isinstance(step, dict) else step)
        kinds.append(fields.optional(step, "type") if isinstance(step, dict) else "")
    return texts, kinds
