"""Contents of `pack.json`, and the one kind of file that a pack may name by its digest instead of holding it."""

import re
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workings.record.values import Digest, parsed_part

PACK = "pack.json"
RUNS = "runs"
"""Folder whose sub-folders are the packed runs."""
SAMPLES_SUFFIX = "-samples"
"""End of the names of packed samples, which are often called like the run that drew them."""
INSIDE, BY_DIGEST = "inside", "digest"

_TENSORS = re.compile(r"checkpoints/step_\d{6,12}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}\.safetensors")


def may_be_external(file: str) -> bool:
    """Whether a run's file may be named by its digest only: a checkpoint's tensors, which only a replay needs."""
    return _TENSORS.fullmatch(file) is not None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PackedUnit(_Part):
    """A unit, by its path in the pack, and its root."""

    place: str
    root: str


class ExternalFile(_Part):
    """A file that the pack names by its digest instead of holding it."""

    place: str
    """Path of the run in the pack."""
    file: str
    sha256: Digest
    bytes: int


class PackList(_Part):
    """Contents of `pack.json`: every unit with its root, every file that is not here with its digest."""

    form: Literal["pack/1"] = Field(alias="schema")
    workings_version: str
    weights: Literal["inside", "digest"]
    units: list[PackedUnit]
    by_digest: list[ExternalFile]

    @property
    def roots(self) -> dict[str, str]:
        """Roots of the units by path."""
        return {unit.place: unit.root for unit in self.units}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if len(self.roots) != len(self.units):
            raise ValueError("a unit is there twice")
        if self.weights == INSIDE and self.by_digest:
            raise ValueError(f"weights are inside, and {len(self.by_digest)} files are not here")
        return self


def parse_pack(value: Any) -> PackList:
    """The list in the parsed contents of `pack.json`. Raises `RecordError`."""
    return parsed_part(PackList, value, PACK)
