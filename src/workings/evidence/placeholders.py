"""Templates that nobody filled in."""

import re
from collections.abc import Iterator

_PLACEHOLDER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX+|CHANGE_?ME|REPLACE_?ME|PLACEHOLDER)\b|\blorem ipsum\b|\b(?:fill|insert) (?:in|here|me)\b"
    r"|<(?:your|insert|enter|add)[ _-][^<>\n]{1,60}>|\{\{[^{}\n]{1,60}\}\}"
    r"|^[ \t]*\.\.\.[ \t]*$|^(?:N/?A|null|unknown|\?+)$",
    re.IGNORECASE | re.MULTILINE)
_ONE_CHARACTER_DIGEST = re.compile(r"\b([0-9a-f])\1{39,}\b")


def find_placeholders(text: str) -> Iterator[str]:
    """Each placeholder that stands in a text."""
    return (match.group(0) for match in _PLACEHOLDER.finditer(text))


def is_placeholder(text: str) -> bool:
    """Whether a value is empty, holds a placeholder, or is a digest of one repeated character."""
    return not text.strip() or bool(_PLACEHOLDER.search(text) or _ONE_CHARACTER_DIGEST.search(text))
