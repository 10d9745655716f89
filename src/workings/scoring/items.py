"""Evaluation questions with their expected answers: reads and checks them, and computes their digest.

    {"id": "1", "prompt": "What is 47+25?", "expected_answer": "72"}       our own form
    {"question": "What is 47+25?", "answer": "7+5=12 … #### 72"}           GSM8K

Two scorecards are comparable only if their items have the same digest.
"""

import hashlib
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from workings.data.columns import SYSTEM, TOOLS, unseen_column
from workings.data.importing.sources import read_objects
from workings.data.row_fields import history_of
from workings.errors import RequestError
from workings.models.turns import Turn
from workings.record.canonical import record_line

UNSPECIFIED = "unspecified"
"""Section, category or difficulty of an item that names none."""
_TEXT_FIELDS = ("section", "category", "difficulty", "cluster")
LARGEST = sys.float_info.max
"""Tolerances are floats; JSON's numbers may be larger."""
_KNOWN = frozenset({"id", "prompt", "expected_answer", "aliases", "tolerance", *_TEXT_FIELDS})
_SHOWN_PROBLEMS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One evaluation question with its expected answer."""

    id: str
    prompt: str
    expected_answer: str
    section: str = UNSPECIFIED
    category: str = UNSPECIFIED
    difficulty: str = UNSPECIFIED
    cluster: str = ""
    """Items of one cluster are not independent (a template, a passage); empty: the item is standalone."""
    aliases: tuple[str, ...] = ()
    """Other answers that count as correct."""
    tolerance: float = 0.0
    """A number within this absolute distance of the expected one counts as correct."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other keys, which do not change a score but the digest."""

    @property
    def history(self) -> tuple[Turn, ...]:
        """The turns before the question, from the key `history` of its line."""
        return history_of(self.extra.get("history", []))

    def to_json(self) -> dict[str, Any]:
        """The item as one JSON object, without empty optional keys: they would change the digests of old items."""
        optional = {"cluster": self.cluster, "aliases": list(self.aliases), "tolerance": self.tolerance}
        return {**self.extra, "id": self.id, "prompt": self.prompt, "expected_answer": self.expected_answer,
                "section": self.section, "category": self.category, "difficulty": self.difficulty,
                **{name: value for name, value in optional.items() if value}}


def read_items(path: Path) -> list[Item]:
    """Items of a JSON lines file in its order, or of a shipped set if no file has its name.

    A line has our own keys (``id``, ``prompt``, ``expected_answer``, optional ``section``, ``category``,
    ``difficulty``, ``cluster``, ``aliases``, ``tolerance``, ``history``: earlier turns); or ``question`` (or
    ``prompt``) and ``answer``: a line of text, a number, or GSM8K's solution that ends in ``#### n``. The id of such a
    line may be missing. Raises `RequestError` if there is no such file or set, if it is empty, and for lines that are
    no items and ids that come twice; it names the first ten.
    """
    if not path.is_file():
        # Imported on demand: the scoring process starts in a fifth of the time without it.
        from workings.data.named_sets import shipped_items
        from workings.data.traces import item_json

        return [item_from_json(item_json(trace)) for trace in shipped_items(
            str(path), path, " (JSON lines with id, prompt and expected_answer)")]
    items: list[Item] = []
    problems: list[str] = []
    for number, record in read_objects(path):
        try:
            if isinstance(record, str):
                raise ValueError(record)
            items.append(item_from_json(record, fallback_id=f"{path.stem}-{number:05d}"))
            refuse_unseen_column(record)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    # Scores are joined by id, run against run, so an id must name one question.
    problems += [f"id {name!r} comes {count} times" for name, count in Counter(item.id for item in items).items()
                 if count > 1]
    if problems:
        more = [f"and {len(problems) - _SHOWN_PROBLEMS} more"] if len(problems) > _SHOWN_PROBLEMS else []
        raise RequestError(f"{path} has wrong lines: {'; '.join([*problems[:_SHOWN_PROBLEMS], *more])}",
                           "one JSON object a line with a unique id, a prompt and an expected_answer",
                           "correct the lines named above" if items else f"workings data import {path} --out "
                           "questions.jsonl; a file of traces also works as questions")
    if not items:
        raise RequestError(f"{path} has no items", "at least one item")
    return items


def items_digest(items: Sequence[Item]) -> str:
    """SHA-256 (hex) of the items in their order, as a canonical JSON list."""
    digest = hashlib.sha256(b"[")
    for index, item in enumerate(items):
        digest.update((b"," if index else b"") + record_line(item.to_json(), f"item {item.id}")[:-1])
    digest.update(b"]")
    return digest.hexdigest()


def item_from_json(record: Mapping[str, Any], *, fallback_id: str = "") -> Item:
    """One item from one JSON object. Raises ``ValueError`` with the reason."""
    question_key = "question" if "question" in record else "prompt"
    # A line with steps is a trace and no item.
    if question_key in record and "answer" in record and not {"expected_answer", "steps"} & record.keys():
        record = _from_question(record, question_key, fallback_id)
    for name in ("id", "prompt", "expected_answer"):
        if name not in record:
            raise ValueError(f"has no {name!r}")
    answer = record["expected_answer"]
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise ValueError(f"expected_answer is {type(answer).__name__}, not text or a number")
    is_finite = isinstance(answer, str | int) or math.isfinite(answer)
    if not is_finite or not str(answer).strip():
        raise ValueError(f"expected_answer is {answer!r}")
    texts = {name: _text(record, name) for name in ("id", "prompt", *_TEXT_FIELDS) if name in record}
    if not texts["id"] or not texts["prompt"]:
        raise ValueError("id or prompt is empty")
    # A question without its system text or its tools would be another question.
    for key in (*SYSTEM, *TOOLS):
        if record.get(key):
            raise ValueError(f"`{key}` would not be shown to the model; a system text goes into `history`, and items "
                             "have no tools")
    history_of(record.get("history", []))  # raise now, not when the question is asked
    aliases, tolerance = record.get("aliases", []), record.get("tolerance", 0)
    if not isinstance(aliases, list) or not all(isinstance(alias, str) and alias.strip() for alias in aliases):
        raise ValueError("aliases is not a list of texts")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance <= LARGEST:
        raise ValueError(f"tolerance is {tolerance!r}, not a number of at least 0")
    return Item(expected_answer=str(answer), aliases=tuple(aliases), tolerance=float(Fraction(str(tolerance))),
                extra={key: value for key, value in record.items() if key not in _KNOWN}, **texts)


def refuse_unseen_column(record: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a user's line with a column that the answer depends on and the model would not see.

    Not for records of other programs, such as a harness, whose prompts are complete.
    """
    shown = {name: record[name] for name in ("question", "prompt", "history") if name in record}
    for key, value in record.items():
        if key not in {*_KNOWN, *shown} and unseen_column(key, value, shown, record):
            raise ValueError(f"`{key}` looks like what the answer depends on, but would not be shown to the model; its "
                             "text belongs into the prompt, and anything else under another name")


def _from_question(record: Mapping[str, Any], question_key: str, fallback_id: str) -> dict[str, Any]:
    """A record with a question and an answer, or with GSM8K's solution, under the keys of an item."""
    answer = record["answer"]
    if isinstance(answer, str) and "####" in answer:
        steps = len(re.findall(r"<<[^<>]*>>", answer))
        return {"id": record.get("id", fallback_id), "prompt": record[question_key],
                "expected_answer": answer.rsplit("####", 1)[1].strip(),
                "difficulty": f"{steps} steps" if steps != 1 else "1 step"}
    # Nothing says which of several lines is the expected answer.
    if isinstance(answer, str) and "\n" in answer.strip():
        raise ValueError("answer has several lines and no '#### n' at its end (GSM8K's form)")
    others = {key: value for key, value in record.items() if key not in (question_key, "answer")}
    return {"id": fallback_id, **others, "prompt": record[question_key], "expected_answer": answer}


def _text(record: Mapping[str, Any], name: str) -> str:
    """A text of a record; a whole number counts as text."""
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{name} is {type(value).__name__}, not text")
    return str(value)
