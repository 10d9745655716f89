"""The table of formats: how a record of each becomes a trace, a preference pair, or half of a pair.

A missing field is never replaced by another one: a reader that falls back to the question where the answer should be
trains a model on questions. A record with two possible readings is refused. What a format does not name is kept as
metadata. Completions of pairs lose the white space at their ends, which chat templates do not write.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from workings.data.columns import SYSTEM
from workings.data.importing import fields
from workings.data.importing.completion import lines_of, split_any, split_hashes, split_tagged
from workings.data.importing.fields import ALPACA, SHAREGPT, Exchange, Said, said
from workings.data.importing.ultrafeedback import best_and_worst, score
from workings.data.row_fields import history_of, kind_of, refuse_half_surrogates
from workings.models.turns import Turn

_QUESTIONS = ("prompt", "question", "instruction", "problem", "query")
_TAGGED = ("completion", "response", "output", "answer", "text")
_ANSWERS = ("answer", "solution", "response", "output", "completion")
_GROUPED = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")
_SIDES = ("chosen", "rejected")
_VERDICTS = ("label", "kto_tag")
_SPEAKER = re.compile(r"\n\n(Human|Assistant):")

Record = Mapping[str, Any]
Split = Callable[[str], tuple[Sequence[str], str]]
Keys = AbstractSet[str]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a format finds in a record."""

    values: dict[str, Any]
    """Keys of the line of a trace or a pair, without id and labels; of half a pair `prompt`, `completion` and turns."""
    used: frozenset[str]
    """Keys of the record that are in the values; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""
    is_right: bool | None = None
    """Of half a pair, whether its completion is the better one."""
    not_learned: Sequence[Turn] = ()
    """Turns behind the last one that may be learned."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a field of its own, which a history does not keep."""


def _trace(record: Record, conversation: list[Said], used: Keys, split: Split = split_any) -> Parts:
    """The trace of a conversation; ``split`` takes a text apart that has no reasoning in another field."""
    end = fields.exchange(fields.with_system(record, conversation))
    steps, answer = (end.beside, end.completion.strip()) if end.beside else split(end.completion)
    return Parts(values={**end.asked, "steps": list(steps), "answer": answer, **json.loads(end.calls or "{}")},
                 not_learned=end.not_learned, reasoning_left_out=end.reasoning_left_out,
                 used=frozenset({*used, *SYSTEM}))


def _pair(record: Record, conversations: Iterable[list[Said]], used: Keys = frozenset()) -> Parts:
    """The pair of two conversations, the better one first, that differ in their last turn only."""
    better, worse = (fields.exchange(fields.with_system(record, spoken)) for spoken in conversations)
    if better.asked != worse.asked:
        raise ValueError("the two conversations differ before their last turn; a pair has one prompt")
    return Parts(values={**better.asked, "chosen": _completion(better), "rejected": _completion(worse)},
                 used=frozenset({*used, *_SIDES, *SYSTEM}))


def _completion(end: Exchange) -> str:
    """The completion of an exchange as one text. Raises `ValueError` where it is two."""
    if end.beside:
        raise ValueError("reasoning in a field of its own: nothing says how it is written in the completion")
    if end.calls or end.not_learned:
        raise ValueError("a completion of a pair that " + ("calls a tool" if end.calls else
                                                           "is marked as not to be learned"))
    return end.completion.strip()


def _turns(key: str, names: tuple[str, str], record: Record) -> Parts:
    return _trace(record, fields.turns(record, key, names), {key})


def _text(questions: tuple[str, ...], answers: tuple[str, ...], split: Split, record: Record) -> Parts:
    """A question and one text with its answer; where the text may have any form, reasoning may be in another field."""
    question_key, answer_key = fields.one_of(record, questions), fields.one_of(record, answers)
    return _trace(record, *_asked_and_told(record, [said("user", fields.text(record, question_key))], {question_key},
                                           answer_key, any_form=split is split_any), split)


def _asked_and_told(record: Record, asked: list[Said], used: Keys, answer_key: str, *,
                    any_form: bool = True) -> tuple[list[Said], set[str]]:
    """A conversation that ends with the text of a key, and the keys that were read."""
    # Of a record, unlike of a turn, such a key may say anything (a flag, a level), and is metadata then.
    key = next((key for key in fields.REASONING_KEYS if any_form and isinstance(record.get(key), str)
                and record[key].strip()), "")
    beside = lines_of(record[key]) if key else ()
    return [*asked, said("assistant", fields.text(record, answer_key), beside)], {*used, answer_key, key}


def _prompt_completion(record: Record, split: Split = split_any) -> Parts:
    if isinstance(record.get("prompt"), list) or isinstance(record.get("completion"), list):
        return _trace(record, fields.turns(record, "prompt") + fields.turns(record, "completion"),
                      {"prompt", "completion"}, split)
    asked = [said("user", fields.text(record, "prompt"))]
    return _trace(record, *_asked_and_told(record, asked, {"prompt"}, "completion"), split)


def whole_completion(record: Record) -> Parts:
    """`prompt-completion` with the completion unchanged: an answer without steps."""
    parts = _prompt_completion(record, lambda text: ((), text))
    if parts.values["steps"]:
        raise ValueError("the completion's reasoning is in another field, so there is no single text to keep")
    return parts


def _alpaca(record: Record) -> Parts:
    return _trace(record, *_asked_and_told(record, fields.alpaca(record), ALPACA, "output"))


def _gsm8k_answer(text: str) -> tuple[Sequence[str], str]:
    steps, answer = split_hashes(text)
    # A number without the commas that group its digits; any other answer as it is.
    return steps, answer.replace(",", "") if _GROUPED.fullmatch(answer) else answer


def _traces(record: Record) -> Parts:
    """The form that everything else reads, with other common names of its keys."""
    question_key, answer_key = fields.one_of(record, ("prompt", "question")), fields.one_of(record,
                                                                                            ("answer", "final_answer"))
    if "steps" not in record:
        raise ValueError(f"`steps` is missing; the record has {fields.keys_of(record)}")
    steps, kinds = _steps(record["steps"])
    own = record.get("metadata") or {}
    if not isinstance(own, dict):
        raise ValueError(f"`metadata` must be an object, not {kind_of(own)}")
    parts = _own(record, {"prompt": fields.text(record, question_key), "steps": steps,
                          "answer": fields.text(record, answer_key)}, {question_key, answer_key, "steps", "metadata"})
    # Where both spellings of the answer are there they are equal, and the second is not metadata either.
    used = parts.used | {key for key in ("answer", "final_answer") if key in record}
    return Parts(values=parts.values, used=used, metadata=own | ({"step_types": kinds} if any(kinds) else {}))


def _preferences(record: Record) -> Parts:
    values = {"prompt": fields.text(record, "prompt"), **{side: fields.text(record, side).strip() for side in _SIDES}}
    return _own(record, values, {"prompt", *_SIDES})


def _own(record: Record, values: dict[str, Any], used: set[str]) -> Parts:
    """A record in this package's own form, whose turns are read as they are."""
    turns = {name: history_of(record[name], name) for name in ("history", "tool_turns") if record.get(name)}
    system = [one.turn for one in fields.with_system(record, [])]
    if system:
        turns["history"] = (*system, *turns.get("history", ()))
    return Parts(values=values | {name: [turn.to_json() for turn in each] for name, each in turns.items()},
                 used=frozenset({*used, "history", "tool_turns", *SYSTEM}))


def _steps(steps: object) -> tuple[list[str], list[str]]:
    if isinstance(steps, str):
        return list(lines_of(steps)), []
    if not isinstance(steps, list):
        raise ValueError(f"`steps` must be a list of texts, not {kind_of(steps)}")
    # Kinds stay as long as texts, empty where none is told, because they are paired by position.
    texts, kinds = [], []
    for step in steps:
        if not isinstance(step, dict | str):
            raise ValueError(f"a step must be a text or an object with `content`, not {kind_of(step)}")
        texts.append(fields.text(step, "content") if isinstance(step, dict) else step)
        kinds.append(fields.optional(step, "type") if isinstance(step, dict) else "")
    return texts, kinds


def _explicit(record: Record) -> Parts:
    if any(isinstance(record.get(key), list) for key in ("prompt", *_SIDES)):
        prompt = fields.turns(record, "prompt")
        chosen, rejected = (fields.turns(record, side) for side in _SIDES)
    else:
        prompt = [said("user", fields.text(record, "prompt"))]
        chosen, rejected = ([said("assistant", fields.text(record, side))] for side in _SIDES)
    return _pair(record, ([*prompt, *chosen], [*prompt, *rejected]), {"prompt"})


def _implicit(record: Record) -> Parts:
    """The prompt of texts is the beginning that they share, as far as it goes; they have to part between two words.

    Source: TRL, "Dataset formats and types", preference with an implicit prompt, and its function `extract_prompt`.
    """
    if "prompt" in record:
        raise ValueError("`prompt` stands beside the two; try --format prompt-chosen-rejected")
    if any(isinstance(record.get(side), list) for side in _SIDES):
        return _pair(record, (fields.turns(record, side) for side in _SIDES))
    chosen, rejected = (fields.text(record, side) for side in _SIDES)
    shared = next((at for at, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b), None)
    if shared is None:
        raise ValueError("one of the two texts begins with the whole other one; nothing says where the prompt ends")
    if not shared:
        raise ValueError("the two texts do not begin alike, so there is no prompt")
    # In the middle of a word a part of the answer is shared, and how much of it is unknown.
    if not (chosen[shared - 1].isspace() or (chosen[shared].isspace() and rejected[shared].isspace())):
        raise ValueError(f"the two texts part within a word, behind {chosen[:shared][-20:]!r}; nothing says where the "
                         "prompt ends")
    prompt = said("user", chosen[:shared].strip())
    return _pair(record, ([prompt, said("assistant", text[shared:])] for text in (chosen, rejected)))


def _hh(record: Record) -> Parts:
    return _pair(record, (_dialogue(fields.text(record, side), side) for side in _SIDES))


def _dialogue(text: str, key: str) -> list[Said]:
    # The first turn has its empty line as well, unless the text was trimmed.
    before, *spoken = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if before or not spoken:
        raise ValueError(f"`{key}` does not begin with `Human:`, so it is not a dialogue")
    # The pattern has a group, so `split` gives speakers and texts in turn.
    return [said("user" if speaker == "Human" else "assistant", turn_text.strip())
            for speaker, turn_text in zip(spoken[::2], spoken[1::2], strict=True)]


def _ultrafeedback(record: Record) -> Parts:
    if "completions" in record:
        if others := sorted(set(_SIDES) & record.keys()):
            raise ValueError(f"`completions` and `{others[0]}` in one record: which of them is meant is not clear")
        texts, metadata = best_and_worst(record["completions"])
        prompt = said("user", fields.text(record, "instruction"))
        parts = _pair(record, ([prompt, said("assistant", text)] for text in texts), {"instruction", "completions"})
        return Parts(values=parts.values, used=parts.used, metadata=metadata)
    chosen, rejected = (score(record, f"score_{side}") for side in _SIDES)
    if chosen <= rejected:
        raise ValueError(f"score_chosen {chosen:g} is not above score_rejected {rejected:g}: nothing is preferred")
    # `messages` is the chosen conversation once more.
    pair = _pair(record, (fields.turns(record, side) for side in _SIDES), {"prompt", "messages"})
    if pair.values["prompt"].strip() != fields.text(record, "prompt").strip():
        raise ValueError("`prompt` is not the last question of the conversations")
    return pair


def _llamafactory(record: Record) -> Parts:
    if "conversations" not in record:
        asked = fields.alpaca(record)
        return _pair(record, ([*asked, said("assistant", fields.text(record, side))] for side in _SIDES), ALPACA)
    if "instruction" in record:
        raise ValueError("`conversations` and `instruction` in one record: which of them is asked is not clear")
    asked = fields.turns(record, "conversations", SHAREGPT)
    return _pair(record, ([*asked, fields.turn_of(record.get(side), SHAREGPT, f"`{side}`")] for side in _SIDES),
                 {"conversations"})


def _kto(record: Record) -> Parts:
    """A completion in any of the forms of TRL and LLaMA-Factory, and whether it is right."""
    tags = [tag for tag in _VERDICTS if record.get(tag) is not None]
    if len(tags) != 1:
        raise ValueError(f"one of `label` and `kto_tag` was expected; the record has {fields.keys_of(record)}")
    right = record[tags[0]]
    if not isinstance(right, bool):
        raise ValueError(f"`{tags[0]}` must be true or false")
    shapes = [key for key in _KTO_SHAPES if record.get(key) is not None]
    if len(shapes) != 1:
        raise ValueError(f"one of {', '.join(f'`{key}`' for key in _KTO_SHAPES)} was expected; the record has "
                         f"{fields.keys_of(record)}")
    conversation, used = _KTO_SHAPES[shapes[0]](record)
    end = fields.exchange(fields.with_system(record, conversation))
    completion = _completion(end)
    # Here and not when the pair is made, so that a record without a text is refused alone.
    refuse_half_surrogates(record)
    if not completion or not end.prompt.strip():
        raise ValueError("the prompt or the completion is empty")
    return Parts(values={**end.asked, "completion": completion}, is_right=right,
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


@dataclass(frozen=True)
class Format:
    """A value of `--format`."""

    gives: Literal["traces", "pairs"]
    keys: str
    """The keys that a record needs, for people."""
    read: Callable[[Record], Parts]
    """Raises `ValueError` with a reason that fits behind `file:line:`."""


# A record is taken for the first format that reads it. Pairs first, because a record of pairs often holds a
# conversation as well; then from the strictest reader to the one that reads the most.
FORMATS: dict[str, Format] = {
    # Data sets openbmb/UltraFeedback and HuggingFaceH4/ultrafeedback_binarized.
    "ultrafeedback": Format("pairs", "instruction, completions with scores; or chosen, rejected, score_chosen, "
                            "score_rejected", _ultrafeedback),
    # LLaMA-Factory, data/README.md, preference data sets in the formats sharegpt and alpaca.
    "llamafactory": Format("pairs", "conversations, chosen, rejected; or instruction, input, chosen, rejected",
                           _llamafactory),
    # Data set Anthropic/hh-rlhf.
    "hh": Format("pairs", "chosen, rejected: dialogues of Human: and Assistant:", _hh),
    # TRL, "Dataset formats and types", for these two and for kto.
    "chosen-rejected": Format("pairs", "chosen, rejected, which begin with the same prompt", _implicit),
    "prompt-chosen-rejected": Format("pairs", "prompt, chosen, rejected: texts or lists of turns", _explicit),
    "preferences": Format("pairs", "prompt, chosen, rejected, history", _preferences),
    "kto": Format("pairs", "label or kto_tag; prompt, completion or messages or conversations or instruction, output",
                  _kto),
    "messages": Format("traces", "messages with role, content", partial(_turns, "messages", fields.OPENAI)),
    "sharegpt": Format("traces", "conversations with from, value", partial(_turns, "conversations", SHAREGPT)),
    "traces": Format("traces", "prompt, steps, answer", _traces),
    "gsm8k": Format("traces", "question, answer that ends with a line #### RESULT",
                    partial(_text, ("question",), ("answer",), _gsm8k_answer)),
    "tagged": Format("traces", "a question, and a text with <think> or <reasoning> and <answer>",
                     partial(_text, _QUESTIONS, _TAGGED, split_tagged)),
    "alpaca": Format("traces", "instruction, input, output", _alpaca),
    "prompt-completion": Format("traces", "prompt, completion: texts or lists of turns", _prompt_completion),
    "question-answer": Format("traces", "a question and an answer under any of their usual names",
                              partial(_text, _QUESTIONS, _ANSWERS, split_any)),
}
"""The values of `--format`."""

PAIR_FORMATS = tuple(name for name, each in FORMATS.items() if each.gives == "pairs")
"""Those that give preference pairs."""
