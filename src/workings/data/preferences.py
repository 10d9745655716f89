"""Preference pairs: a better and a worse completion of one prompt. One JSON object a line, UTF-8.

Files of other shapes become pairs through `workings.data.importing`; everything else sees pairs only. The two
completions are texts as a model writes them, in any form: a pair says which is better, not how it
reasons.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.row_fields import Labelled, iterate_lines, labels_of, object_of, texts_of
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
