"""One function a format of preference pairs: a parsed record in, the parts of a pair out.

Nothing is guessed: a record of which two readings are possible is refused. Completions lose the white space at their
ends, which chat templates do not write; else texts stay as they are.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workings.data.columns import SYSTEM
from workings.data.importing import fields
from workings.data.importing.fields import ALPACA, SHAREGPT, Exchange, Parts, Said
from workings.data.row_fields import history_of, kind_of
from workings.models.turns import Turn

SCORES = ("fine-grained_score", "overall_score", "score")
"""Keys of the score of a completion in UltraFeedback and similar data sets."""
_COMPLETIONS = frozenset({"chosen", "rejected"})
_SPEAKER = re.compile(r"\n\n(Human|Assistant):")


@dataclass(frozen=True, kw_only=True)
class PairParts(Parts):
    """The parts of a record of pairs."""

    chosen: str
    rejected: str


PairFormat = Callable[[Mapping[str, Any]], PairParts]


def _explicit(record: Mapping[str, Any]) -> PairParts:
    """`prompt`, `chosen` and `rejected`, all of them texts or all of them lists of turns.

    Source: TRL, "Dataset formats and types", preference with an explicit prompt.
    """
    if any(isinstance(record.get(key), list) for key in ("prompt", *_COMPLETIONS)):
        prompt_turns = fields.turns(record, "prompt")
        return _pair(record, *([*prompt_turns, *fields.turns(record, key)] for key in ("chosen", "rejected")),
                     used=_COMPLETIONS | {"prompt"})
    return PairParts(prompt=fields.text(record, "prompt"), chosen=fields.text(record, "chosen").strip(),
                     rejected=fields.text(record, "rejected").strip(),
                     history=[said.turn for said in fields.system_turn(record)],
                     used=_COMPLETIONS | {"prompt", *SYSTEM})


def _implicit(record: Mapping[str, Any]) -> PairParts:
    """`chosen` and `rejected` that begin with the same prompt: lists of turns, or texts.

    The prompt of texts is the beginning that they share, as far as it goes; they have to part between two words.
    Source: TRL, "Dataset formats and types", preference with an implicit prompt, and its function `extract_prompt`.
    """
    if "prompt" in record:
        raise ValueError("`prompt` stands beside the two; try --format prompt-chosen-rejected")
    if any(isinstance(record.get(key), list) for key in _COMPLETIONS):
        return _pair(record, fields.turns(record, "chosen"), fields.turns(record, "rejected"), used=_COMPLETIONS)
    chosen, rejected = fields.text(record, "chosen"), fields.text(record, "rejected")
    shared = next((at for at, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b), None)
    if shared is None:
        raise ValueError("one of the two texts begins with the whole other one; nothing says where the prompt ends")
    if not shared:
        raise ValueError("the two texts do not begin alike, so there is no prompt")
    # In the middle of a word a part of the answer is shared, and how much of it nobody can tell.
    if not (chosen[shared - 1].isspace() or (chosen[shared].isspace() and rejected[shared].isspace())):
        raise ValueError(f"the two texts part within a word, behind {chosen[:shared][-20:]!r}; nothing says where the "
                         "prompt ends")
    return PairParts(prompt=chosen[:shared].strip(), chosen=chosen[shared:].strip(),
                     rejected=rejected[shared:].strip(), used=_COMPLETIONS)


def _hh(record: Mapping[str, Any]) -> PairParts:
    """`chosen` and `rejected`, dialogues of turns that begin with an empty line and `Human:` or `Assistant:`.

    Source: the data set Anthropic/hh-rlhf.
    """
    return _pair(record, *(_dialogue(fields.text(record, key), key) for key in ("chosen", "rejected")),
                 used=_COMPLETIONS)


def _dialogue(text: str, key: str) -> list[Said]:
    # The first turn has its empty line as well, where nobody has trimmed the text.
    before, *spoken = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if before or not spoken:
        raise ValueError(f"`{key}` does not begin with `Human:`, so it is not a dialogue")
    roles = {"Human": "user", "Assistant": "assistant"}
    # The pattern has a group, so `split` gives speakers and texts in turn.
    return [Said(Turn(roles[role], turn_text.strip()))
            for role, turn_text in zip(spoken[::2], spoken[1::2], strict=True)]


def _ultrafeedback(record: Mapping[str, Any]) -> PairParts:
    """Scored completions: all of a question, or the best and a worse one.

    `instruction` and `completions` (data set openbmb/UltraFeedback): best score against worst, the first of equal ones.
    `prompt`, `chosen`, `rejected` as whole conversations, `score_chosen`, `score_rejected` (data set
    HuggingFaceH4/ultrafeedback_binarized).
    """
    if "completions" in record:
        if others := sorted(_COMPLETIONS & record.keys()):
            raise ValueError(f"`completions` and `{others[0]}` in one record: which of them is meant is not clear")
        return _best_and_worst(record)
    chosen, rejected = (_score(record, f"score_{key}") for key in ("chosen", "rejected"))
    if chosen <= rejected:
        raise ValueError(f"score_chosen {chosen:g} is not above score_rejected {rejected:g}: nothing is preferred")
    # `messages` is the chosen conversation once more.
    pair = _pair(record, fields.turns(record, "chosen"), fields.turns(record, "rejected"),
                 used=_COMPLETIONS | {"prompt", "messages"})
    if pair.prompt.strip() != fields.text(record, "prompt").strip():
        raise ValueError("`prompt` is not the last question of the conversations")
    return pair


def _best_and_worst(record: Mapping[str, Any]) -> PairParts:
    completions = record["completions"]
    if not isinstance(completions, list) or not all(isinstance(completion, dict) for completion in completions):
        raise ValueError("`completions` must be a list of objects")
    if len(completions) < 2:
        raise ValueError(f"{len(completions)} completions, and a pair has two")
    score_keys = [name for name in SCORES if all(completion.get(name) is not None for completion in completions)]
    if not score_keys:
        raise ValueError(f"no score that all completions have: {' or '.join(SCORES)}")
    scores = {name: [_score(completion, name) for completion in completions] for name in score_keys}
    first = scores[score_keys[0]]
    best, worst = first.index(max(first)), first.index(min(first))
    if best == worst:
        raise ValueError(f"all completions have {score_keys[0]} {first[0]:g}: nothing is preferred")
    # Two scores that disagree about which is better: taking either would be a guess.
    if wrong := [name for name in score_keys if scores[name][best] < scores[name][worst]]:
        raise ValueError(f"{score_keys[0]} and {wrong[0]} disagree about which completion is better")
    metadata = {f"score_{side}": first[at] for side, at in (("chosen", best), ("rejected", worst))}
    metadata |= {f"model_{side}": completions[at]["model"] for side, at in (("chosen", best), ("rejected", worst))
                 if isinstance(completions[at].get("model"), str)}
    return PairParts(prompt=fields.text(record, "instruction"), metadata=metadata,
                     chosen=fields.text(completions[best], "response").strip(),
                     rejected=fields.text(completions[worst], "response").strip(),
                     used=frozenset({"instruction", "completions"}))


def _llamafactory(record: Mapping[str, Any]) -> PairParts:
    """`conversations` with `chosen` and `rejected` as turns, or `instruction`, `input` with both as texts.

    Source: LLaMA-Factory, data/README.md, preference data sets in the formats sharegpt and alpaca.
    """
    if "conversations" not in record:
        prompt, history = fields.alpaca_prompt(record)
        return PairParts(prompt=prompt, history=history, chosen=fields.text(record, "chosen").strip(),
                         rejected=fields.text(record, "rejected").strip(), used=ALPACA | _COMPLETIONS)
    if "instruction" in record:
        raise ValueError("`conversations` and `instruction` in one record: which of them is asked is not clear")
    prompt_turns = fields.turns(record, "conversations", SHAREGPT)
    return _pair(record, *([*prompt_turns, fields.turn_of(record.get(key), SHAREGPT, f"`{key}`")] for key in ("chosen",
                                                                                                      "rejected")),
                 used=_COMPLETIONS | {"conversations"})


def _preferences(record: Mapping[str, Any]) -> PairParts:
    """The form that everything else reads (`workings.data.preferences`): `prompt`, `chosen`, `rejected`, `history`."""
    history = history_of(record["history"]) if record.get("history") else ()
    return PairParts(prompt=fields.text(record, "prompt"), chosen=fields.text(record, "chosen").strip(),
                     rejected=fields.text(record, "rejected").strip(),
                     history=[*(said.turn for said in fields.system_turn(record)), *history],
                     used=_COMPLETIONS | {"prompt", "history", *SYSTEM})


PAIR_FORMATS: dict[str, PairFormat] = {
    "prompt-chosen-rejected": _explicit, "chosen-rejected": _implicit, "hh": _hh, "ultrafeedback": _ultrafeedback,
    "llamafactory": _llamafactory, "preferences": _preferences,
}
"""Values of `--format` that give pairs, a pair a record."""


def completion_of(end: Exchange) -> str:
    """The completion of an exchange as one text. Raises `ValueError` where it is two."""
    if end.beside:
        raise ValueError("reasoning in a field of its own: nothing says how it is written in the completion")
    if end.calls or end.not_learned:
        raise ValueError("a completion of a pair that " + ("calls a tool" if end.calls else
                                                           "is marked as not to be learned"))
    return end.completion.strip()


def _pair(record: Mapping[str, Any], chosen: list[Said], rejected: list[Said], *, used: frozenset[str]) -> PairParts:
    """The pair of two conversations that differ in their last turn only."""
    better, worse = (fields.exchange(fields.with_system(record, spoken)) for spoken in (chosen, rejected))
    if (better.history, better.prompt, better.tool_turns) != (worse.history, worse.prompt, worse.tool_turns):
        raise ValueError("the two conversations differ before their last turn; a pair has one prompt")
    return PairParts(prompt=better.prompt, history=better.history, tool_turns=better.tool_turns,
                     chosen=completion_of(better), rejected=completion_of(worse), used=used | set(SYSTEM))


def _score(record: Mapping[str, Any], key: str) -> float:
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {fields.keys_of(record)}")
    # In Python true is a number, and it is not a score. Bounds also keep away what is not a finite number.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value < 1e9:
        raise ValueError(f"`{key}` must be a number, not {kind_of(value)}")
    return float(value)
