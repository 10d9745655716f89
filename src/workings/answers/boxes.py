r"""Boxes of LaTeX, ``\boxed{…}`` and ``\fbox{…}``, and what they hold."""

import re

MAX_BOXES = 50
"""Maximum number of boxes to read, from the end."""
_INNER = r"[^{}]*+"
for _ in range(5):  # a fraction inside of the box has its own braces
    _INNER = rf"(?:[^{{}}]++|\{{{_INNER}\}})*+"
_BOX = re.compile(rf"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*(?:\{{(?=\s*[^\s}}])({_INNER})\}}|([^\s{{]{{1,100}}))")
# "x = \boxed{2} or x = \boxed{3}": both are the answer.
_SIDE_BY_SIDE = re.compile(r"[\s$\\()]*(?:,|and|or|;)[\s$\\()]*(?:and|or)?[\s$\\()]*(?:[a-zA-Z]\s*=\s*)?")
MAX_BETWEEN = 60
"""Characters between two boxes side by side."""


def last_boxes(text: str) -> str | None:
    """Content of the last closed box of a text; of all boxes if several are side by side; None without a box."""
    start, contents = len(text), list[str]()
    for box in reversed([*_BOX.finditer(text)][-MAX_BOXES:]):
        # Cut, because the expression could take long on a text of any length; a cut one matches nothing.
        if contents and not _SIDE_BY_SIDE.fullmatch(text[box.end():start][:MAX_BETWEEN]):
            break
        content = box[1] or box[2].strip("$.")
        # "-\boxed{256}"; after something else the sign is a difference.
        is_negative = not contents and re.search(r"[=$(]\s*-\s*$", text[:box.start()][-9:])
        contents.insert(0, f"-{content}" if is_negative else last_boxes(content) or content)
        start = box.start()
    return ", ".join(contents) or None
