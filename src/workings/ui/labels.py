"""Tags of runs, and runs that the list hides: what a person thinks of them, outside of every seal."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from pydantic import BaseModel, Field, ValidationError

from workings.errors import RecordError, RequestError
from workings.record import atomic
from workings.record.untrusted_files import read_plain

SUFFIX = ".tags.json"
"""Ending of the file next to the folder of runs: it moves with the project, and nothing in the folder changes."""
MAX_TAGS = 20
_TAG = re.compile(r"[^\s,]{1,40}")


class Label(BaseModel):
    """A person's notes about one run."""

    tags: list[str] = Field(default=[], max_length=MAX_TAGS)
    hidden: bool = False


class _Labels(BaseModel):
    runs: dict[str, Label] = {}


@dataclass
class LabelStore:
    """Labels by run name, in one file of JSON."""

    path: Path
    _writing: Lock = field(default_factory=Lock)

    @classmethod
    def beside(cls, folder: Path) -> "LabelStore":
        """The store of a folder of runs."""
        return cls(folder.with_name(folder.name + SUFFIX))

    def all(self) -> dict[str, Label]:
        """Every label; empty where none was given, or where the file cannot be read: the runs are shown all the same.

        A file that cannot be read is never overwritten: `set` refuses it.
        """
        try:
            return self._read()
        except RecordError:
            return {}

    def set(self, run: str, label: Label) -> None:
        """Note this of a run, and nothing more of what was noted before.

        Raises:
            RecordError: the file that is there is not one of ours.
            StorageError: it cannot be written.
        """
        # Read and written under one lock, so that of two labels set at once none is lost.
        with self._writing:
            labels = self._read()
            # An empty label is not one, and the file does not grow by it.
            if label == Label():
                labels.pop(run, None)
            else:
                labels[run] = label
            atomic.write_text(self.path, _Labels(runs=dict(sorted(labels.items()))).model_dump_json(indent=1) + "\n")

    def _read(self) -> dict[str, Label]:
        if not self.path.exists():
            return {}
        try:
            return _Labels.model_validate(json.loads(read_plain(self.path))).runs
        except (ValueError, ValidationError) as error:
            raise RecordError(f"{self.path.name}: not a file of tags: {str(error)[:200]}") from None


def tags_of(text: str) -> list[str]:
    """Tags as a person types them, parted by blanks or commas. Raises `RequestError`."""
    tags = list(dict.fromkeys(text.replace(",", " ").split()))
    if len(tags) > MAX_TAGS or not all(map(_TAG.fullmatch, tags)):
        raise RequestError(f"tags {text[:80]!r}", f"at most {MAX_TAGS} words of at most 40 characters", "baseline good")
    return tags
