"""Recorded log probabilities of the rows of preference pairs under the reference, a line for each row."""

from collections.abc import Iterable, Mapping
from typing import Any

from workings.errors import RecordError

LogProbs = Mapping[str, float]
"""Row id -> log probability of its completion under the reference, in nats; float32 numbers."""


def to_lines(said: LogProbs) -> list[dict[str, Any]]:
    """Lines of a run's record, in the order of the ids."""
    return [{"id": name, "log_prob": said[name]} for name in sorted(said)]


def from_lines(lines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Reads the output of `to_lines`. Raises `RecordError` for an invalid line, and for an id that comes twice."""
    sums: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        name, said = line.get("id"), line.get("log_prob")
        if not isinstance(name, str) or isinstance(said, bool) or not isinstance(said, int | float) or name in sums:
            raise RecordError(f"line {number} of the reference's log probabilities: an id and a number were expected, "
                              "each id once")
        # A float32 is a float64 exactly, and the shortest text of that is read back to the bit.
        sums[name] = float(said)
    return sums
