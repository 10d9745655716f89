"""A completion on one line of a terminal."""

import re

REPEATED = re.compile(r"(?P<unit>(?:\\.|[^\\]){1,40}?)(?P=unit){3,}", re.DOTALL)
"""A piece of text at least four times in a row; an escape such as ``\\n`` is never cut in two."""


def one_line(text: str, width: int) -> str:
    """The text with repetitions counted instead of repeated, cut to ``width`` characters.

    A model that has learned little says one thing over and over; four lines of it tell no more than the number.
    """
    short = REPEATED.sub(lambda found: f"{found['unit']} x{len(found[0]) // len(found['unit'])} ", text)
    return short if len(short) <= width else short[:max(0, width - 1)] + "…"
