"""Preference pairs, and verdicts on single completions. One JSON object a line, UTF-8.

A pair is a better and a worse completion of one prompt; a verdict is one completion, labelled correct or wrong. Files
of other shapes become these through `workings.data.importing`; everything else sees these only. Completions are texts
as a model writes them, in any form.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.row_fields import Labelled, iterate_lines, kind_of, labels_of, object_of, texts_of
from workings.errors import RequestError
from workings.hints import no_file


@dataclass(frozen=True, kw_only=True)
class PreferencePair(Labelled):
    """One prompt with a better and a worse completion."""

    id: str
    """Unique in its file; decides the pair's place in an epoch."""
    prompt: str
    """The question, without any chat turn around it."""
    chosen: str
    """The better completion, without any chat turn around it."""
    rejected: str
    """The worse one."""

    def to_json(self) -> dict[str, Any]:
        """The pair as one flat JSON object; metadata is next to the known keys, empty labels are left out."""
        return self.with_labels({name: getattr(self, name) for name in _OWN})


_OWN = ("id", "prompt", "chosen", "rejected")


def pair_from_json(record: object, *, escapes: bool = True) -> PreferencePair:
    """The pair that a parsed line holds; arguments and errors as of `workings.data.row_fields.object_of`.

    Raises:
        ValueError: when a field is missing or has the wrong type, too.
    """
    line = object_of(record, escapes=escapes)
    return PreferencePair(**texts_of(line, _OWN), **labels_of(line, _OWN))


def iterate_pairs(path: Path) -> Iterator[PreferencePair]:
    """The pairs of a file, one after the other, in constant memory but for the set of ids.

    Raises:
        RequestError: naming file and line, when the file is absent or a line is not a pair or repeats an id.
    """
    if not path.is_file():
        raise RequestError(f"preference pairs: {no_file(path)}", "a file of pairs, one JSON object a line",
                           "workings data import --format preferences FILE --out pairs.jsonl")
    yield from iterate_lines(path, pair_from_json, expected="one pair a line: id, prompt, chosen, rejected",
                             form="preferences", out="pairs.jsonl")


def read_pairs(path: Path) -> list[PreferencePair]:
    """All pairs of a file; see `iterate_pairs`. An empty file is an error.

    Raises:
        RequestError: as `iterate_pairs`, or there is no pair.
    """
    pairs = list(iterate_pairs(path))
    if not pairs:
        raise RequestError(f"preference pairs: {path} is empty", "at least one pair")
    return pairs


@dataclass(frozen=True, kw_only=True)
class Verdict(Labelled):
    """One completion of a prompt, and whether it is correct."""

    id: str
    """Unique in its file; decides the place in an epoch."""
    prompt: str
    """The question, without any chat turn around it."""
    completion: str
    """The completion, without any chat turn around it."""
    label: bool
    """Whether it is correct, or wanted."""

    def to_json(self) -> dict[str, Any]:
        """The verdict as one flat JSON object; metadata is next to the known keys, empty labels are left out."""
        return self.with_labels({name: getattr(self, name) for name in (*_TEXTS, "label")})


_TEXTS = ("id", "prompt", "completion")


def verdict_from_json(record: object, *, escapes: bool = True) -> Verdict:
    """The verdict that a parsed line holds; arguments and errors as of `workings.data.row_fields.object_of`.

    Raises:
        ValueError: when a field is missing or has the wrong type, too.
    """
    line = object_of(record, escapes=escapes)
    if not isinstance(line.get("label"), bool):
        raise ValueError(f"`label` must be true or false, not {kind_of(line.get('label'))}" if "label" in line
                         else "`label` is missing")
    if isinstance(line.get("completion"), str) and not line["completion"].strip():
        raise ValueError("`completion` is empty")
    return Verdict(**texts_of(line, _TEXTS), label=line["label"], **labels_of(line, (*_TEXTS, "label")))


def read_verdicts(path: Path) -> list[Verdict]:
    """All verdicts of a file.

    Raises:
        RequestError: naming file and line, when the file is absent or empty, or a line is no verdict or repeats an id.
    """
    if not path.is_file():
        raise RequestError(f"verdicts: {no_file(path)}", "a file of verdicts, one JSON object a line",
                           "workings data import --format kto FILE --out verdicts.jsonl")
    verdicts = list(iterate_lines(path, verdict_from_json, form="kto", out="verdicts.jsonl",
                                  expected="one verdict a line: id, prompt, completion, label"))
    if not verdicts:
        raise RequestError(f"verdicts: {path} is empty", "at least one verdict")
    return verdicts
