"""Text views of JSON: the same facts for people, made by one function so that a verifier can make them again."""

from typing import Any


def text_view(value: dict[str, Any], prefix: str = "") -> str:
    """A JSON object as one `dotted.key: value` line each, in the order of the keys."""
    lines = []
    for key in sorted(value):
        inner = value[key]
        lines.append(text_view(inner, f"{prefix}{key}.") if isinstance(inner, dict) else f"{prefix}{key}: {inner}\n")
    return "".join(lines)
