"""Recorded log probabilities of the rows of preference pairs under the reference, a line for each row."""

from collections.abc import Iterable, Mapping
from typing import Any

from workings.errors import RecordError

LogProbs = Mapping[str, float]
"""Row id -> log probability of its completion under the reference, in nats; float32 numbers."""


def to_lines(log_probs: LogProbs) -> list[dict[str, Any]]:
    """Lines of a run's record, in the order of the ids."""
    return [{"id": name, "log_prob": log_probs[name]} for name in sorted(log_probs)]


def from_lines(lines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Reads the output of `to_lines`. Raises `RecordError` for an invalid line, and for an id that comes twice."""
    sums: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        name, log_prob = line.get("id"), line.get("log_prob")
        if not isinstance(name, str) or isinstance(log_prob, bool) or not isinstance(log_prob, int
                                                                                     | float) or name in sums:
            raise RecordError(f"line {number} of the reference's log probabilities: an id and a number were expected, "
                              "each id once")
        # A float32 is a float64 exactly, and the shortest text of that is read back to the bit.
        sums[name] = float(log_prob)
    return sums
