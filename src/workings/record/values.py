"""Values of a record: absent values, digests, times, and JSON objects as text.

A record has no nulls: an absent value says why it is absent.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workings.errors import RecordError
from workings.record.digest import DIGEST_PATTERN

Digest = Annotated[str, Field(pattern=f"^{DIGEST_PATTERN}$")]
"""SHA-256 in lower-case hexadecimal."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
_Model = TypeVar("_Model", bound=BaseModel)


class Absent(BaseModel):
    """Placeholder of a value that does not exist, with the reason: `{"absent": "no accelerator"}`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    absent: str = Field(min_length=3)


def absent(why: str) -> Absent:
    """An absent value with its reason."""
    return Absent(absent=why)


def is_absent(value: Any) -> bool:
    """Whether a JSON value read from a record means an absent one."""
    return isinstance(value, Absent) or (isinstance(value, dict) and len(value) == 1 and "absent" in value)


def now() -> str:
    """This moment in UTC, to the millisecond: `2026-11-20T12:34:56.789Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


CLOCK_SLACK = timedelta(seconds=5)
"""Largest correction of a machine's clock during a run."""


def moment(text: str) -> datetime:
    """A time of a record. Raises `RecordError` for any other text, or without a time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise RecordError(f"not a moment in time: {text[:40]!r}") from None
    if time.tzinfo is None:
        raise RecordError(f"a moment without a time zone: {text[:40]!r}")
    return time


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested objects by dotted key, in their order; an absent value is one, with its reason.

    >>> dict(leaves({"training": {"steps": 3}, "name": "a"}))
    {'training.steps': 3, 'name': 'a'}
    """
    for key, value in values.items():
        if isinstance(value, dict) and not is_absent(value):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def parsed_part(model: type[_Model], value: dict[str, Any], name: str) -> _Model:
    """A JSON object as a model. Raises `RecordError` naming the file and the keys that are wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
        raise RecordError(f"{name}: {wrong}") from None
