"""Verdicts: single completions of a prompt, labelled correct or wrong. One JSON object per line, UTF-8."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.row_fields import Labelled, iterate_lines, kind_of, labels_of, object_of, texts_of
from workings.errors import RequestError
from workings.hints import no_file


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
