"""Moments, as records write them."""

from datetime import UTC, datetime


def now() -> str:
    """This moment in UTC, to the millisecond: `2026-11-20T12:34:56.789Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
