"""Times as people write them: ``9h``, ``90m``, ``1h30m``, ``45s``."""

import re

from workings.errors import RequestError

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
WRITTEN = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))+")
PIECE = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def parse_duration(text: str) -> float:
    """Seconds of a time as people write it. Raises `RequestError` for anything else, and for no time at all."""
    written = text.strip().lower()
    seconds = sum(float(number) * UNITS[unit] for number, unit in PIECE.findall(written))
    if not WRITTEN.fullmatch(written) or seconds <= 0:
        raise RequestError(f"--deadline {text}", "a time such as 9h, 90m or 1h30m", "--deadline 9h")
    return seconds


def duration(seconds: float) -> str:
    """A time for people: two units at most."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours / 24:.1f} days"
