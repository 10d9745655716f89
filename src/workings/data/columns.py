"""Refuses data whose meaning would get lost: columns that an answer depends on, and marks that forbid learning.

    {"question": "Who wrote it?", "context": "…", "answer": "Bach"}       `context` must be read, or ignored on purpose
    {"question": "…", "answer": "…", "train": false}                      is not learned

A model that learns an answer without its context learns to guess. So the format of the file must read a column with
such a name (`CONTEXT_NAMES`), or `--ignore` must name it, which keeps it under the key `ignored`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

IGNORED = "ignored"
"""Key of the columns that were left out on purpose."""
WRITTEN_BY_IMPORT = (IGNORED, "calculations", "turns_not_learned")
"""Metadata that the import itself writes."""
CONTEXT_NAMES = frozenset((
    "input", "context", "ctx", "passage", "choice", "option", "op", "ending", "document", "doc", "article", "paragraph",
    "excerpt", "chunk", "sentence", "story", "scenario", "dialogue", "dialog", "history", "transcript", "premise",
    "hypothesis", "evidence", "fact", "schema", "table", "source_text", "background", "snippet", "knowledge",
    "system", "system_prompt", "system_message", "system_instruction", "sys_prompt", "developer", "tool",
    "tool_def", "tool_description", "available_tool", "tools_schema", "function", "function_definition"))
"""Names of columns that an answer depends on, in lower case. They also count in the plural, with a number (`passage_2`)
or a letter (`option_a`), and after other words (`source_document`)."""
_QUESTION_NAMES = ("question", "problem", "query", "instruction")
"""Further such names. They are harmless after another word (`original_question`)."""
_CONTEXT_ONLY_ALONE = frozenset(("system", "tool", "function", "developer", "op"))
"""Names of `CONTEXT_NAMES` that are harmless after another word (`operating_system`)."""
_HARMLESS_FIRST_WORDS = ("num", "number", "n", "has", "is", "tool")
"""First words that make any name harmless (`num_choices`, `tool_choice`)."""
_NOT_IN_QUESTION = frozenset(("id", "answer", "steps", "chosen", "rejected", "completion", "tool_calls", "section",
                              "category", "difficulty", "source", "licence"))
"""Keys of a trace, a pair or a verdict that a model is not shown before it answers."""
_NOT_WITH_TEXT = ("prompt", "question", "instruction", "problem", "query", "answer", "solution", "response", "output",
                  "completion", "steps", "messages", "conversations", "history", "chosen", "rejected")
"""Columns that a record with a raw text must not have."""
SYSTEM = ("system", "system_prompt", "system_message", "developer")
"""Columns that hold a system text."""
TOOLS = ("tools", "tool_defs", "functions", "available_tools", "tool_definitions")
"""Columns that describe tools."""
_MOST_NAMED = 10
_KINDS_OF_MEDIA = {"image": "an image", "audio": "audio", "video": "video"}
MEDIA = {name: words for kind, words in _KINDS_OF_MEDIA.items()
         for name in (kind, f"{kind}s", f"{kind}_url", f"input_{kind}")}
"""Types of content parts, and keys of parts, turns and records -> their content in words."""
_REASONING_NAME = re.compile(r"(^|_)(co_?t|chain_?of_?thoughts?|thinking|thoughts?|reasoning|rationale|scratchpad|"
                             r"deliberation)($|_)", re.IGNORECASE)
"""Names of columns that hold the reasoning of an answer."""
MARKS = ("learned", "weight", "train", "training", "trainable", "is_trainable", "loss", "loss_mask", "loss_weight",
         "loss_scale", "mask", "train_detail", "training_detail")
"""Keys of a turn or a record that say whether it is learned."""
_MARKS_OF_RECORDS = ("weight", "train", "trainable", "is_trainable")
"""Those that also mark a record, whatever their value."""
_MARKS_NOT_READ = ("mask", "train_detail", "training_detail")
"""Those that are refused, whatever their value."""
_LEARNED = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
"""Values of a mark, as text -> whether the turn is learned."""
_FORBID = frozenset(("ignore", "ignored", "skip", "skipped", "exclude", "excluded", "mask", "masked"))
_ALLOW = frozenset(("train", "trained", "training", "trainable", "learn", "learned", "learnable", "loss", "weight",
                    "supervise", "supervised"))
_CALL_NAMES = frozenset(("tool_call", "tool_use", "tool_uses", "function_calls", "calls"))
VERDICT_KEYS = ("label", "kto_tag")
"""Columns that say whether a completion is good."""


def refuse_unread(unread: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an ``unread`` column of a record that the answer depends on, or that forbids learning.

    ``read`` is everything that a model is shown.
    """
    for key, value in unread.items():
        if (key in MARKS and not learned_mark(unread, "the record", is_record=True)) or forbids_learning(key, value):
            reason = "so nothing of it is to be learned"
            if isinstance(value, list):
                reason = "a list; each turn needs its own mark, 0 or 1"
            raise ValueError(f"the record is marked `{key}: {str(value)[:40]}`, {reason}; try --ignore {key}")
        if key in VERDICT_KEYS and str(value).lower() == "false" and "chosen" not in read:
            raise ValueError(f"the record is marked `{key}: {value}`, so its completion is no good one; try "
                             f"--format kto, which learns from verdicts, or --ignore {key}")
        # The import gives an unread `history` the name `original_history`.
        in_file = key if key in CONTEXT_NAMES else key.removeprefix("original_")
        if unseen_column(key, value, read, unread):
            raise ValueError(f"`{in_file}` looks like what the answer depends on, but the model would not see it; try "
                             f"a format that reads it, --map, or --ignore {in_file}")
        if _is_reasoning(key, value) and not _shown(value, read):
            raise ValueError(f"`{in_file}` looks like the reasoning, but the model would not see it; try --map "
                             f"reasoning={key}, or --ignore {in_file}")


def unseen_column(key: str, value: object, read: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether a column has a name on which an answer depends, and a text that what is asked does not have.

    ``read`` is everything that is shown or learned; ``others`` are all columns that are not read.
    """
    # `A` alone may be anything; with `B` next to it they are choices.
    is_choice = key in set("ABCDEFGH") and {"A", "B"} <= others.keys()
    # A `text` may be the whole record, written out.
    is_other_text = key == "text" and str(read.get("prompt", "")) not in str(value)
    if not (_is_context(key) or is_choice or is_other_text):
        return False
    return not _shown(value, {name: text for name, text in read.items() if name not in _NOT_IN_QUESTION})


def hidden_content(key: str, value: object, shown: str, has_reasoning: bool) -> str | None:
    """What an unread key of a turn (not a tool's) seems to hold that the model should see; None for a harmless key.

    ``shown`` is the turn's text; ``has_reasoning``: whether its reasoning is read from another key.
    """
    if _is_context(key):
        return None if _shown(value, {"text": shown}) else "what the answer depends on"
    if _words(key) in _CALL_NAMES:
        return "a call of a tool, which is read from `tool_calls`"
    if _is_reasoning(key, value) and not has_reasoning:
        return "the reasoning, which is read from `reasoning_content`"
    return None


def _shown(value: object, read: Mapping[str, Any]) -> bool:
    """Whether all texts of a value are in the texts that are read, each as whole words."""
    shown = " ".join(" ".join(_texts(read)).split())
    for text in filter(None, (" ".join(text.split()) for text in _texts(value))):
        # `a` is not in `apple`. Scripts without spaces have no such borders between words.
        as_word = rf"(?<![A-Za-z0-9])(?=[A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])"
        if not re.search(rf"{as_word}|(?=[^A-Za-z0-9]){re.escape(text)}", shown):
            return False
    return True


def forbids_learning(key: str, value: object) -> bool:
    """Whether a key outside of `MARKS` looks like a mark that forbids learning: `skip: true`, `learn: [0, 1]`."""
    if key in MARKS:
        return False
    words = set(_words(key).split("_"))
    words |= {word.removesuffix("s") for word in words}
    if isinstance(value, list):
        are_flags = bool(value) and all(each in (0, 1) for each in value)
        return are_flags and bool(words & (_FORBID | _ALLOW))
    if value in (True, "true"):
        return bool(words & _FORBID)
    return value in (False, "false") and bool(words & _ALLOW)


def refuse_media(record: Mapping[str, Any], where: str, kind: object = "") -> None:
    """Raise `ValueError` if a record, a turn or a part of its content has an image, audio or video.

    ``where`` is its place, for the message; ``kind`` the `type` of a part: elsewhere that key means something else.
    """
    # Rows of parquet and the Hub have every key, empty if unused.
    keys = [key for key, value in record.items() if key in MEDIA and value]
    if isinstance(kind, str) and kind in MEDIA:
        keys.insert(0, kind)
    if keys:
        raise ValueError(f"{MEDIA[keys[0]]} (`{keys[0]}`) in {where}: only text can be learned from, "
                         "and the text would mean something else without it")


def refuse_keys_with_text(record: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a raw text has a question, an answer or a conversation next to it."""
    if others := [key for key in _NOT_WITH_TEXT if record.get(key) not in (None, "", [])]:
        raise ValueError(f"`{others[0]}` next to `text`: a raw text must be the only content")


def kept_columns(counts: Mapping[str, int]) -> Iterator[str]:
    """Sentences about columns that are kept, but shown to no model; ``counts``: columns -> records that have them."""
    names = sorted(counts.keys() - set(WRITTEN_BY_IMPORT), key=lambda name: -counts[name])
    for name in names[:_MOST_NAMED]:
        records = f"{counts[name]:,} record{'s' if counts[name] != 1 else ''}"
        yield f"`{name}` of {records} is kept and not shown to the model"
    if more := names[_MOST_NAMED:]:
        yield f"so are {len(more):,} other columns, such as `{more[0]}`"


def learned_mark(record: Mapping[str, Any], where: str, *, is_record: bool = False) -> bool:
    """Whether a turn or (``is_record``) a record may be learned, by its mark; true without one.

    Raises `ValueError` for a mark that is neither 0 nor 1, and for two that contradict each other; ``where`` it is, for
    messages.
    """
    key_by_mark: dict[bool, str] = {}
    for key in MARKS:
        value = record.get(key)
        # In a record most of these keys may also be other numbers, such as a weight of the whole data set.
        has_another_meaning = is_record and key not in _MARKS_OF_RECORDS and value not in (0, "false")
        if value is None or (has_another_meaning and not isinstance(value, list)):
            continue
        given = f"{where} is marked `{key}: {str(value)[:40]}`"
        if isinstance(value, list) and not key.endswith("_detail"):
            raise ValueError(f"{given}, a list; each turn needs its own mark, 0 or 1")
        learned = _LEARNED.get(str(value).lower())
        if learned is None or key in _MARKS_NOT_READ:
            raise ValueError(f"{given}; only 0 and 1 (or false and true) of `weight`, `train`, `trainable`, `loss` and "
                             "`loss_mask` are read")
        key_by_mark[learned] = key
    if len(key_by_mark) > 1:
        raise ValueError(f"{where} has marks that contradict each other: `{key_by_mark[True]}` and "
                         f"`{key_by_mark[False]}`")
    return False not in key_by_mark


def _words(key: str) -> str:
    """A name in lower case, with underscores between its words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "_", key).strip("_").lower()


def _is_context(key: str) -> bool:
    """Whether an answer usually depends on a column of this name."""
    whole_name = _words(key)
    without_number = re.sub(r"_?([a-h]|\d+)$", "", whole_name)
    for name in (whole_name, without_number):
        first, last = name.partition("_")[0], name.rpartition("_")[2]
        if {name, name.removesuffix("s")} & {*CONTEXT_NAMES, *_QUESTION_NAMES}:
            return True
        is_harmless = first in _HARMLESS_FIRST_WORDS
        if not is_harmless and {last, last.removesuffix("s")} & (CONTEXT_NAMES - _CONTEXT_ONLY_ALONE):
            return True
    return False


def _is_reasoning(key: str, value: object) -> bool:
    """Whether a column holds the reasoning of an answer; a flag or a level of that name holds none."""
    has_name = _REASONING_NAME.search(re.sub(r"[^A-Za-z0-9]+", "_", key)) is not None
    return has_name and isinstance(value, str | list) and any(len(text.split()) > 1 for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    """All texts of a JSON value; for an object only its values."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
