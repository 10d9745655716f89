r"""The answer that a text marks as such, with ``<answer>``, ``\boxed`` or a last line ``####``, and what leads to it.

The rules are those of `workings.answers.extract`; only marks count here. What a sentence says is found where an answer
is expected, and not in texts that may have no answer.
"""

import re

from workings.answers.extract import MAX_LINE, extract

_ONLY_BOX = re.compile(
    r"[\s*$:,.]*(?:(?:so|thus|therefore|hence|the|it|final|answer|is|\\\(|\\\[)[\s*$:,.]*)*"
    r"\\(?:boxed|fbox)\s*\{.*\}[\s*$.]*(?:\\\)|\\\])?[\s*$.]*", re.IGNORECASE)


def marked_answer(text: str) -> str:
    r"""The answer that a text marks; empty where it marks none.

    >>> marked_answer(r"3+4=7, so \boxed{7}."), marked_answer("It is 7.")
    ('7', '')
    """
    lines = text.strip().splitlines()
    # A heading of markdown begins with `####` as well.
    marked = [line.lstrip().startswith("####") for line in lines]
    hashes = ("hashes",) if sum(marked) == 1 and marked[-1] else ()
    return extract(text, "text", ("answer_tag", *hashes, "boxed")).text


def final_answer(text: str) -> str:
    """The marked answer of a text, else the text."""
    return marked_answer(text) or text.strip()


def before_box(text: str) -> str:
    """A text without its last line, where that is nothing but the box with the answer."""
    head, _, last = text.strip().rpartition("\n")
    return head if len(last) <= MAX_LINE and _ONLY_BOX.fullmatch(last) else text
