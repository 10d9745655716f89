r"""The formats of `workings data import`: each reads the keys of a trace, a pair or a verdict out of a record.

    alpaca    {"instruction": "Add", "input": "3 and 4", "output": "3+4=7\n#### 7"}
    gives     {"prompt": "Add\n\n3 and 4", "steps": ["3+4=7"], "answer": "7"}

A format does not replace a missing field by another one, and refuses a record that can be read in two ways. What it
does not read is kept as metadata.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

from workings.data.columns import SYSTEM, VERDICT_KEYS, refuse_keys_with_text
from workings.data.importing import fields
from workings.data.importing.completion import StepsAndAnswer, lines_of, split_any, split_hashes, split_tagged
from workings.data.importing.convert import Keys, Parts, Record
from workings.data.importing.fields import ALPACA, OPENAI, SHAREGPT, Exchange, SourceTurn, TurnKeys, text_turn
from workings.data.row_fields import history_of, kind_of

Split = Callable[[str], StepsAndAnswer]
_GROUPED = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")
QUESTIONS = ("prompt", "question", "instruction", "problem", "query")
"""Usual keys of a question."""
ANSWERS = ("answer", "solution", "response", "output", "completion")
"""Usual keys of an answer."""
_TAGGED = ("completion", "response", "output", "answer", "text")
"""Usual keys of a text with tags around reasoning and answer."""
RAW_TEXT = "text"
"""The format of raw texts."""
_SIDES = ("chosen", "rejected")
_SPEAKER = re.compile(r"\n\n(Human|Assistant):")


def _trace(record: Record, conversation: list[SourceTurn], used: Keys, split: Split = split_any) -> Parts:
    """The trace of a conversation; ``split`` makes steps and answer of a text without reasoning in another field."""
    end = fields.exchange(fields.with_system(record, conversation))
    if end.reasoning:
        steps, answer = end.reasoning, end.completion.strip()
    else:
        steps, answer = split(end.completion)
    return Parts(values={**end.asked, "steps": list(steps), "answer": answer, **json.loads(end.calls or "{}")},
                 not_learned=end.not_learned, reasoning_left_out=end.reasoning_left_out, used={*used, *SYSTEM})


def conversation(key: str, turn_keys: TurnKeys, record: Record) -> Parts:
    """A list of turns under a key."""
    return _trace(record, fields.turns(record, key, turn_keys), {key})


def question_and_answer(questions: tuple[str, ...], answers: tuple[str, ...], split: Split, record: Record) -> Parts:
    """A question and one text with its answer. Only with `split_any` may the reasoning be in another field."""
    question_key, answer_key = fields.one_of(record, questions), fields.one_of(record, answers)
    return _answered(record, [text_turn("user", fields.text(record, question_key))], {question_key}, answer_key, split,
                     reads_reasoning=split is split_any)


def raw_text(record: Record) -> Parts:
    """A text that is learned whole; nothing in the record may ask or answer."""
    refuse_keys_with_text(record)
    return Parts(values={"text": fields.text(record, "text")}, used={"text"})


def _answered(record: Record, asked: list[SourceTurn], used: Keys, answer_key: str, split: Split = split_any, *,
              reads_reasoning: bool = True) -> Parts:
    """The trace of a conversation that ends with the text of a key."""
    # Unlike in a turn, such a key of a record may also hold a flag or a level, which is metadata.
    reasoning_key = next((key for key in fields.REASONING_KEYS if reads_reasoning and isinstance(record.get(key), str)
                          and record[key].strip()), None)
    given = {} if reasoning_key is None else {reasoning_key: record[reasoning_key]}
    answer, reasoning = fields.one_reasoning(given, fields.text(record, answer_key), "the record")
    return _trace(record, [*asked, text_turn("assistant", answer, reasoning)], {*used, answer_key, *given}, split)


def prompt_completion(record: Record, split: Split = split_any) -> Parts:
    """`prompt` and `completion`, both texts or both lists of turns."""
    if isinstance(record.get("prompt"), list) or isinstance(record.get("completion"), list):
        return _trace(record, fields.turns(record, "prompt") + fields.turns(record, "completion"),
                      {"prompt", "completion"}, split)
    return _answered(record, [text_turn("user", fields.text(record, "prompt"))], {"prompt"}, "completion", split)


def whole_completion(record: Record) -> Parts:
    """`prompt-completion` with the completion unchanged: an answer without steps."""
    parts = prompt_completion(record, lambda text: ((), text))
    if parts.values["steps"]:
        raise ValueError("the completion's reasoning is in another field, so there is no single text to keep")
    return parts


def alpaca(record: Record) -> Parts:
    """`instruction`, `input` (may be empty or absent), `output`, and optional `history` as pairs."""
    return _answered(record, fields.alpaca(record), ALPACA, "output")


def gsm8k_answer(text: str) -> StepsAndAnswer:
    """Steps and answer of a text that ends with `#### answer`; a number loses the commas that group its digits."""
    steps, answer = split_hashes(text)
    return steps, (answer.replace(",", "") if _GROUPED.fullmatch(answer) else answer)


def traces(record: Record) -> Parts:
    """The form that everything else reads, with other common names of its keys."""
    question_key = fields.one_of(record, ("prompt", "question"))
    answer_key = fields.one_of(record, ("answer", "final_answer"))
    if "steps" not in record:
        raise ValueError(f"`steps` is missing; the record has {fields.keys_of(record)}")
    steps = list(lines_of(record["steps"])) if isinstance(record["steps"], str) else record["steps"]
    if not isinstance(steps, list):
        raise ValueError(f"`steps` must be a list of texts, not {kind_of(steps)}")
    for step in steps:
        if not isinstance(step, str):
            raise ValueError(f"a step must be a text, not {kind_of(step)}")
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ValueError(f"`metadata` must be an object, not {kind_of(metadata)}")
    answer, _ = fields.one_reasoning({"reasoning": "\n".join(steps)}, fields.text(record, answer_key), "the record")
    values = {"prompt": fields.text(record, question_key), "steps": steps, "answer": answer}
    parts = in_own_form(record, values, {question_key, answer_key, "steps", "metadata"})
    # If the record has both spellings of the answer, they are equal, and neither is metadata.
    return Parts(values=parts.values, used={*parts.used, "answer", "final_answer"}, metadata=metadata)


def in_own_form(record: Record, values: dict[str, Any], used: set[str]) -> Parts:
    """A record in this package's form, with its turns unchanged."""
    turns = {name: history_of(record[name], name) for name in ("history", "tool_turns") if record.get(name)}
    system = [one.turn for one in fields.with_system(record, [])]
    if system:
        turns["history"] = (*system, *turns.get("history", ()))
    return Parts(values=values | {name: [turn.to_json() for turn in each] for name, each in turns.items()},
                 used={*used, "history", "tool_turns", *SYSTEM})


def _pair(record: Record, conversations: Iterable[list[SourceTurn]], used: Keys = frozenset()) -> Parts:
    """The pair of two conversations, the better one first, that differ in their last turn only."""
    better, worse = (fields.exchange(fields.with_system(record, spoken)) for spoken in conversations)
    if better.asked != worse.asked:
        raise ValueError("the two conversations differ before their last turn; a pair has one prompt")
    return Parts(values={**better.asked, "chosen": _completion(better), "rejected": _completion(worse)},
                 used={*used, *_SIDES, *SYSTEM})


def _completion(end: Exchange) -> str:
    """The completion of an exchange as one text. Raises `ValueError` if there are two."""
    if end.reasoning:
        raise ValueError("reasoning in a separate field: nothing says how it is written in the completion")
    if end.calls:
        raise ValueError("a completion of a pair that calls a tool")
    if end.not_learned:
        raise ValueError("a completion of a pair that is marked as not to be learned")
    return end.completion.strip()


def preferences(record: Record) -> Parts:
    """The form that everything else reads (`workings.data.preferences`)."""
    values = {"prompt": fields.text(record, "prompt"), **{side: fields.text(record, side).strip() for side in _SIDES}}
    return in_own_form(record, values, {"prompt", *_SIDES})


def explicit(record: Record) -> Parts:
    """`prompt`, `chosen` and `rejected`, all texts or all lists of turns."""
    prompt, chosen, rejected = _turns_by_key(record, ("prompt", *_SIDES))
    return _pair(record, ([*prompt, *chosen], [*prompt, *rejected]), {"prompt"})


def implicit(record: Record) -> Parts:
    """`chosen` and `rejected`. The prompt of texts is the beginning that they share; they must part between two words.

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
    # Within a word the texts share a part of the answer, whose length is unknown.
    part_between_words = chosen[shared - 1].isspace() or (chosen[shared].isspace() and rejected[shared].isspace())
    if not part_between_words:
        raise ValueError(f"the texts differ inside a word, after {chosen[:shared][-20:]!r}; it is unclear where the "
                         "prompt ends")
    prompt = text_turn("user", chosen[:shared].strip())
    return _pair(record, ([prompt, text_turn("assistant", text[shared:])] for text in (chosen, rejected)))


def hh(record: Record) -> Parts:
    """Dialogues of turns that begin with an empty line and `Human:` or `Assistant:`."""
    return _pair(record, (_dialogue(fields.text(record, side), side) for side in _SIDES))


def _dialogue(text: str, key: str) -> list[SourceTurn]:
    # The first turn also begins with an empty line, unless the text was trimmed.
    before, *spoken = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if before or not spoken:
        raise ValueError(f"`{key}` does not begin with `Human:`, so it is not a dialogue")
    # The pattern has a group, so `split` gives speakers and texts alternately.
    return [text_turn("user" if speaker == "Human" else "assistant", turn_text.strip())
            for speaker, turn_text in zip(spoken[::2], spoken[1::2], strict=True)]


def ultrafeedback(record: Record) -> Parts:
    """Two conversations with their scores."""
    chosen, rejected = (_score(record, f"score_{side}") for side in _SIDES)
    if chosen <= rejected:
        raise ValueError(f"score_chosen {chosen:g} is not above score_rejected {rejected:g}: nothing is preferred")
    pair = _pair(record, (fields.turns(record, side) for side in _SIDES), {"prompt", "messages"})
    if pair.values["prompt"].strip() != fields.text(record, "prompt").strip():
        raise ValueError("`prompt` is not the last question of the conversations")
    return pair


def _score(record: Record, key: str) -> float:
    value = fields.required(record, key)
    # A bool is no score. The bounds also exclude numbers that are not finite.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value < 1e9:
        raise ValueError(f"`{key}` must be a number, not {kind_of(value)}")
    return float(value)


def llamafactory(record: Record) -> Parts:
    """`conversations` with both completions as turns, or `instruction` with both as texts."""
    if "conversations" not in record:
        asked = fields.alpaca(record)
        return _pair(record, ([*asked, text_turn("assistant", fields.text(record, side))] for side in _SIDES), ALPACA)
    if "instruction" in record:
        raise ValueError("`conversations` and `instruction` in one record: it is unclear which is the question")
    asked = fields.turns(record, "conversations", SHAREGPT)
    return _pair(record, ([*asked, fields.turn_of(record.get(side), SHAREGPT, f"`{side}`")] for side in _SIDES),
                 {"conversations"})


def kto(record: Record) -> Parts:
    """A verdict: a completion in any of the forms of TRL and LLaMA-Factory, and whether it is correct."""
    present = [tag for tag in VERDICT_KEYS if tag in record]
    # If one of two keys is null, the other one counts. A single key that is null has its own message.
    tags = [tag for tag in present if record[tag] is not None] or present
    if len(tags) != 1:
        raise ValueError(f"one of `label` and `kto_tag` was expected; the record has {fields.keys_of(record)}")
    [tag] = tags
    is_right = fields.required(record, tag)
    if not isinstance(is_right, bool):
        raise ValueError(f"`{tag}` must be true or false, not {is_right!r}")
    keys = [key for key in _KTO_CONVERSATIONS if record.get(key) is not None]
    if len(keys) != 1:
        raise ValueError(f"one of {', '.join(f'`{key}`' for key in _KTO_CONVERSATIONS)} was expected; the record has "
                         f"{fields.keys_of(record)}")
    [key] = keys
    read, further_keys = _KTO_CONVERSATIONS[key]
    end = fields.exchange(fields.with_system(record, read(record)))
    completion = _completion(end)
    if not completion or not end.asked["prompt"].strip():
        raise ValueError("the prompt or the completion is empty")
    return Parts(values={**end.asked, "completion": completion, "label": is_right},
                 used={*further_keys, key, tag, *SYSTEM})


def _turns_by_key(record: Record, keys: Sequence[str]) -> list[list[SourceTurn]]:
    """The turns of each key: lists of turns; or texts, the first one of the user, the others of the assistant."""
    if any(isinstance(record.get(key), list) for key in keys):
        return [fields.turns(record, key) for key in keys]
    return [[text_turn("user" if key == keys[0] else "assistant", fields.text(record, key))] for key in keys]


_KTO_CONVERSATIONS: dict[str, tuple[Callable[[Record], list[SourceTurn]], Keys]] = {
    "completion": (lambda record: [*chain(*_turns_by_key(record, ("prompt", "completion")))], {"prompt"}),
    "messages": (lambda record: fields.turns(record, "messages"), set()),
    "conversations": (lambda record: fields.turns(record, "conversations", SHAREGPT), set()),
    "output": (lambda record: [*fields.alpaca(record), text_turn("assistant", fields.text(record, "output"))], ALPACA)}
"""The key that only one form of a record has -> a reader of its conversation, and the other keys that this reads."""


@dataclass(frozen=True)
class Format:
    """A value of `--format`."""

    gives: Literal["traces", "pairs", "verdicts", "texts"]
    keys: str
    """The keys that a record needs, in words."""
    read: Callable[[Record], Parts]
    """Raises `ValueError` with a reason to follow `file:line:`."""


# A record is read as the first format that reads it. Pairs first, because a record of pairs often holds a
# conversation as well; then from the strictest reader to the one that reads the most.
FORMATS: dict[str, Format] = {
    # Data set HuggingFaceH4/ultrafeedback_binarized.
    "ultrafeedback": Format("pairs", "prompt, chosen, rejected, score_chosen, score_rejected", ultrafeedback),
    # LLaMA-Factory, data/README.md, preference data sets in the formats sharegpt and alpaca.
    "llamafactory": Format("pairs", "conversations, chosen, rejected; or instruction, input, chosen, rejected",
                           llamafactory),
    # Data set Anthropic/hh-rlhf.
    "hh": Format("pairs", "chosen, rejected: dialogues of Human: and Assistant:", hh),
    # TRL, "Dataset formats and types", for these two and for kto.
    "chosen-rejected": Format("pairs", "chosen, rejected, which begin with the same prompt", implicit),
    "prompt-chosen-rejected": Format("pairs", "prompt, chosen, rejected: texts or lists of turns", explicit),
    "preferences": Format("pairs", "prompt, chosen, rejected, history", preferences),
    "kto": Format("verdicts", "label or kto_tag; prompt, completion or messages or conversations or instruction, "
                  "output", kto),
    "messages": Format("traces", "messages with role, content", partial(conversation, "messages", OPENAI)),
    "sharegpt": Format("traces", "conversations with from, value", partial(conversation, "conversations", SHAREGPT)),
    "traces": Format("traces", "prompt, steps, answer", traces),
    "gsm8k": Format("traces", "question, answer that ends with a line #### RESULT",
                    partial(question_and_answer, ("question",), ("answer",), gsm8k_answer)),
    "tagged": Format("traces", "a question, and a text with <think> or <reasoning> and <answer>",
                     partial(question_and_answer, QUESTIONS, _TAGGED, split_tagged)),
    "alpaca": Format("traces", "instruction, input, output", alpaca),
    "prompt-completion": Format("traces", "prompt, completion: texts or lists of turns", prompt_completion),
    "question-answer": Format("traces", "a question and an answer under any of their usual names",
                              partial(question_and_answer, QUESTIONS, ANSWERS, split_any)),
    RAW_TEXT: Format("texts", "text: a raw text, with every token learned", raw_text),
}
"""The values of `--format`."""

PAIR_FORMATS = tuple(name for name, each in FORMATS.items() if each.gives == "pairs")
"""Those that give preference pairs."""
VERDICT_FORMATS = tuple(name for name, each in FORMATS.items() if each.gives == "verdicts")
"""Those that give verdicts."""
