r"""Boxes of LaTeX, ``\boxed{…}`` and ``\fbox{…}``, and what they hold."""

import re
from collections.abc import Iterator

MAX_BOXES = 50
"""Maximum number of boxes to read, from the end."""
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
# "x = \boxed{2} or x = \boxed{3}": both are the answer.
_SIDE_BY_SIDE = re.compile(r"[\s$\\()]*(?:,|and|or|;)[\s$\\()]*(?:and|or)?[\s$\\()]*(?:[a-zA-Z]\s*=\s*)?")
MAX_BETWEEN = 60
"""Characters between two boxes side by side."""


def last_boxes(text: str) -> str | None:
    """Content of the last box of a text; of all boxes if several are side by side; None without a box."""
    found = list(_boxes(text))
    if not found:
        return None
    start, _, content = found[-1]
    # "-\boxed{256}"; after something else the sign is a difference.
    contents = [f"-{content}" if re.search(r"[=$(]\s*-\s*$", text[:start][-9:]) else content]
    for before in reversed(found[:-1]):
        # Cut, because the expression could take long on a text of any length; a cut one matches nothing.
        if not _SIDE_BY_SIDE.fullmatch(text[before[1]:start][:MAX_BETWEEN]):
            break
        contents.insert(0, before[2])
        start = before[0]
    return ", ".join(contents)


def _boxes(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and content of the last boxes, in order."""
    marks = list(_BOX.finditer(text))[-MAX_BOXES:]
    for index, match in enumerate(marks):
        # A box ends before the next one begins; otherwise the inner one is the answer.
        limit = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        if text[match.end():match.end() + 1] != "{":
            content = text[match.end():match.end() + 100].split(maxsplit=1)[:1]
            if content and content[0].strip("$."):
                yield match.start(), match.end() + len(content[0]), content[0].strip("$.")
            continue
        end = _brace_end(text, match.end(), limit)
        if end >= 0 and text[match.end() + 1:end].strip():
            yield match.start(), end + 1, text[match.end() + 1:end]


def _brace_end(text: str, start: int, limit: int) -> int:
    """Place of the brace that closes the one at ``start``, before ``limit``; or -1."""
    # Braces are counted, because a fraction inside of the box has its own braces and a pattern cannot pair them.
    depth = 0
    for index in range(start, limit):
        character = text[index]
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return index
    return -1
