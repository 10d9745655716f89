"""Formats of preference pairs: how a record becomes two conversations that differ in their last turn.

A record with two possible readings is refused. Completions lose the white space at their ends, which chat templates do
not write; else texts stay as they are.
"""

import re
from collections.abc import Callable, Iterable

from workings.data.columns import SYSTEM
from workings.data.importing import fields
from workings.data.importing.convert import Keys, Parts, Record
from workings.data.importing.fields import ALPACA, SHAREGPT, Exchange, Said, said
from workings.data.importing.trace_formats import in_own_form
from workings.data.row_fields import kind_of

_SIDES = ("chosen", "rejected")
_VERDICTS = ("label", "kto_tag")
_SPEAKER = re.compile(r"\n\n(Human|Assistant):")


def _pair(record: Record, conversations: Iterable[list[Said]], used: Keys = frozenset()) -> Parts:
    """The pair of two conversations, the better one first, that differ in their last turn only."""
    better, worse = (fields.exchange(fields.with_system(record, spoken)) for spoken in conversations)
    if better.asked != worse.asked:
        raise ValueError("the two conversations differ before their last turn; a pair has one prompt")
    return Parts(values={**better.asked, "chosen": _completion(better), "rejected": _completion(worse)},
                 used=frozenset({*used, *_SIDES, *SYSTEM}))


def _completion(end: Exchange) -> str:
    """The completion of an exchange as one text. Raises `ValueError` if there are two."""
    if end.reasoning:
        raise ValueError("reasoning in a separate field: nothing says how it is written in the completion")
    if end.calls or end.not_learned:
        raise ValueError("a completion of a pair that " + ("calls a tool" if end.calls else
                                                           "is marked as not to be learned"))
    return end.completion.strip()


def preferences(record: Record) -> Parts:
    """The form that everything else reads (`workings.data.preferences`)."""
    values = {"prompt": fields.text(record, "prompt"), **{side: fields.text(record, side).strip() for side in _SIDES}}
    return in_own_form(record, values, {"prompt", *_SIDES})


def explicit(record: Record) -> Parts:
    """`prompt`, `chosen` and `rejected`, all texts or all lists of turns."""
    if any(isinstance(record.get(key), list) for key in ("prompt", *_SIDES)):
        prompt = fields.turns(record, "prompt")
        chosen, rejected = (fields.turns(record, side) for side in _SIDES)
    else:
        prompt = [said("user", fields.text(record, "prompt"))]
        chosen, rejected = ([said("assistant", fields.text(record, side))] for side in _SIDES)
    return _pair(record, ([*prompt, *chosen], [*prompt, *rejected]), {"prompt"})


def implicit(record: Record) -> Parts:
    """The prompt of texts is the beginning that they share, as far as it goes; they have to part between two words.

    Source: TRL, "Dataset formats and types", preference with an implicit prompt, and its function `extract_prompt`.
    """
    if "prompt" in record:
        raise ValueError("there is also a `prompt`; try --format prompt-chosen-rejected")
    if any(isinstance(record.get(side), list) for side in _SIDES):
        return _pair(record, (fields.turns(record, side) for side in _SIDES))
    chosen, rejected = (fields.text(record, side) for side in _SIDES)
    shared = next((at for at, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b), None)
    if shared is None:
        raise ValueError("one text is the beginning of the other; it is unclear where the prompt ends")
    if not shared:
        raise ValueError("the texts have different beginnings, so there is no prompt")
    # In the middle of a word a part of the answer is shared, and how much of it is unknown.
    if not (chosen[shared - 1].isspace() or (chosen[shared].isspace() and rejected[shared].isspace())):
        raise ValueError(f"the texts differ inside a word, after {chosen[:shared][-20:]!r}; it is unclear where the "
                         "prompt ends")
    prompt = said("user", chosen[:shared].strip())
    return _pair(record, ([prompt, said("assistant", text[shared:])] for text in (chosen, rejected)))


def hh(record: Record) -> Parts:
    """Dialogues of turns that begin with an empty line and `Human:` or `Assistant:`."""
    return _pair(record, (_dialogue(fields.text(record, side), side) for side in _SIDES))


def _dialogue(text: str, key: str) -> list[Said]:
    # The first turn has its empty line as well, unless the text was trimmed.
    before, *spoken = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if before or not spoken:
        raise ValueError(f"`{key}` does not begin with `Human:`, so it is not a dialogue")
    # The pattern has a group, so `split` gives speakers and texts in turn.
    return [said("user" if speaker == "Human" else "assistant", turn_text.strip())
            for speaker, turn_text in zip(spoken[::2], spoken[1::2], strict=True)]


def ultrafeedback(record: Record) -> Parts:
    """Two conversations with their scores."""
    chosen, rejected = (_score(record, f"score_{side}") for side in _SIDES)
    if chosen <= rejected:
        raise ValueError(f"score_chosen {chosen:g} is not above score_rejected {rejected:g}: nothing is preferred")
    # `messages` is the chosen conversation once more.
    pair = _pair(record, (fields.turns(record, side) for side in _SIDES), {"prompt", "messages"})
    if pair.values["prompt"].strip() != fields.text(record, "prompt").strip():
        raise ValueError("`prompt` is not the last question of the conversations")
    return pair


def _score(record: Record, key: str) -> float:
    """A required score. Raises `ValueError`."""
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {fields.keys_of(record)}")
    # A bool is no score. The bounds also exclude numbers that are not finite.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value < 1e9:
        raise ValueError(f"`{key}` must be a number, not {kind_of(value)}")
    return float(value)


def llamafactory(record: Record) -> Parts:
    """`conversations` with both completions as turns, or `instruction` with both as texts."""
    if "conversations" not in record:
        asked = fields.alpaca(record)
        return _pair(record, ([*asked, said("assistant", fields.text(record, side))] for side in _SIDES), ALPACA)
    if "instruction" in record:
        raise ValueError("`conversations` and `instruction` in one record: it is unclear which is the question")
    asked = fields.turns(record, "conversations", SHAREGPT)
    return _pair(record, ([*asked, fields.turn_of(record.get(side), SHAREGPT, f"`{side}`")] for side in _SIDES),
                 {"conversations"})


def kto(record: Record) -> Parts:
    """A verdict: a completion in any of the forms of TRL and LLaMA-Factory, and whether it is correct."""
    tags = [tag for tag in _VERDICTS if record.get(tag) is not None] or [tag for tag in _VERDICTS if tag in record]
    if len(tags) != 1:
        raise ValueError(f"one of `label` and `kto_tag` was expected; the record has {fields.keys_of(record)}")
    right = fields.there(record, tags[0])
    if not isinstance(right, bool):
        raise ValueError(f"`{tags[0]}` must be true or false, not {right!r}")
    shapes = [key for key in _KTO_SHAPES if record.get(key) is not None]
    if len(shapes) != 1:
        raise ValueError(f"one of {', '.join(f'`{key}`' for key in _KTO_SHAPES)} was expected; the record has "
                         f"{fields.keys_of(record)}")
    conversation, used = _KTO_SHAPES[shapes[0]](record)
    end = fields.exchange(fields.with_system(record, conversation))
    completion = _completion(end)
    if not completion or not end.prompt.strip():
        raise ValueError("the prompt or the completion is empty")
    return Parts(values={**end.asked, "completion": completion, "label": right},
                 used=frozenset({*used, shapes[0], tags[0], *SYSTEM}))


def _kto_completion(record: Record) -> tuple[list[Said], frozenset[str]]:
    # TRL writes either both as texts or both as turns.
    if isinstance(record.get("prompt"), list) or isinstance(record["completion"], list):
        return [*fields.turns(record, "prompt"), *fields.turns(record, "completion")], frozenset({"prompt"})
    return [said("user", fields.text(record, "prompt")), said("assistant", fields.text(record, "completion"))], (
        frozenset({"prompt"}))


_KTO_SHAPES: dict[str, Callable[[Record], tuple[list[Said], frozenset[str]]]] = {
    "completion": _kto_completion,
    "messages": lambda record: (fields.turns(record, "messages"), frozenset()),
    "conversations": lambda record: (fields.turns(record, "conversations", SHAREGPT), frozenset()),
    "output": lambda record: ([*fields.alpaca(record), said("assistant", fields.text(record, "output"))], ALPACA),
}
"""The key of each form of a record that no other form has -> its conversation, and the other keys that it reads."""
