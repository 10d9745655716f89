"""Preference pairs and verdicts: which completions of a prompt are good. One JSON object a line, UTF-8.

    {"id": "1", "prompt": "3+4?", "chosen": "7", "rejected": "8"}         a better and a worse completion
    {"id": "2", "prompt": "3+4?", "completion": "7", "label": true}       one completion, correct or wrong

Files of other shapes become these through `workings.data.importing`. Completions are texts in any form, as a model
writes them.
"""

from dataclasses import dataclass
from typing import ClassVar

from workings.data.row_fields import Labelled, LineFile, kind_of, labels_of, object_of, text_of


@dataclass(frozen=True, kw_only=True)
class PreferencePair(Labelled):
    """One prompt with a better and a worse completion."""

    chosen: str
    """The better completion, without any chat turn around it."""
    rejected: str
    OWN: ClassVar = ("id", "prompt", "chosen", "rejected")


def pair_from_json(record: object) -> PreferencePair:
    """The pair that a parsed line holds. Raises `ValueError` for anything else."""
    line = object_of(record)
    return PreferencePair(id=text_of(line, "id"), prompt=text_of(line, "prompt"), chosen=text_of(line, "chosen"),
                          rejected=text_of(line, "rejected"), **labels_of(line, PreferencePair.OWN))


PAIRS = LineFile(name="preference pairs", keys="id, prompt, chosen, rejected", texts=("prompt", "chosen", "rejected"),
                 form="preferences", make="workings data import --format preferences FILE --out pairs.jsonl",
                 from_json=pair_from_json)
iterate_pairs, read_pairs = PAIRS.iterate, PAIRS.read


@dataclass(frozen=True, kw_only=True)
class Verdict(Labelled):
    """One completion of a prompt, and whether it is correct."""

    completion: str
    """The completion, without any chat turn around it."""
    label: bool
    """Whether it is correct, or wanted."""
    OWN: ClassVar = ("id", "prompt", "completion", "label")


def verdict_from_json(record: object) -> Verdict:
    """The verdict that a parsed line holds. Raises `ValueError` for anything else."""
    line = object_of(record)
    if "label" not in line:
        raise ValueError("`label` is missing")
    if not isinstance(line["label"], bool):
        raise ValueError(f"`label` must be true or false, not {kind_of(line['label'])}")
    return Verdict(id=text_of(line, "id"), prompt=text_of(line, "prompt"), completion=text_of(line, "completion"),
                   label=line["label"], **labels_of(line, Verdict.OWN))


VERDICTS = LineFile(name="verdicts", keys="id, prompt, completion, label", texts=("prompt", "completion"), form="kto",
                    make="workings data import --format kto FILE --out verdicts.jsonl", from_json=verdict_from_json)
read_verdicts = VERDICTS.read
