"""Numbers as people read them, for the templates."""

from datetime import datetime

from workings.evaluation.words import percent
from workings.reports.run_table import count, duration

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(size: float) -> str:
    """Bytes in binary units."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def time_text(text: str) -> str:
    """A recorded time to the minute, in UTC; the page's script shows it in local time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return text


def value_text(value: object) -> str:
    """A recorded value as text; a value that does not exist says why."""
    if isinstance(value, dict):
        if set(value) == {"absent"}:
            return f"absent: {value['absent']}"
        return ", ".join(f"{key} {value_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(value_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


FILTERS = {"size": size_text, "time": time_text, "value": value_text, "count": count, "duration": duration,
           "percent": percent}
