"""Values that do not exist. A record has no nulls: it says why there is nothing."""

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Absent(BaseModel):
    """Stands where a value would be, and says why there is none: `{"absent": "no accelerator"}`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    absent: str = Field(min_length=3)
    """Why there is no value, in words."""


def absent(why: str) -> Absent:
    """An absent value with its reason."""
    return Absent(absent=why)


def number_or_absent(value: float) -> float | dict[str, str]:
    """A finite number as it is; for one that JSON cannot hold, `{"absent": "not a number"}` and the like."""
    if math.isnan(value):
        return {"absent": "not a number"}
    if math.isinf(value):
        return {"absent": "infinite" if value > 0 else "minus infinity"}
    return value


def is_absent(value: Any) -> bool:
    """Whether a JSON value read from a record stands for an absent one."""
    return isinstance(value, Absent) or (isinstance(value, dict) and set(value) == {"absent"})
