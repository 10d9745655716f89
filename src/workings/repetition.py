"""Shorten repeated text. A model that has learned little may write the same piece until its limit on tokens."""

import re
from collections.abc import Callable

REPEATED = re.compile(r"(?P<unit>(?:\\.|[^\\]){1,40}?)(?P=unit){3,}", re.DOTALL)
"""A piece of text at least four times in a row; an escape such as ``\\n`` is never cut in two."""
AT_THE_END = re.compile(r"(?P<unit>.{1,40}?)(?P=unit){3,}\Z", re.DOTALL)
LONGEST_REPETITION = 4 * 40  # four of the longest pieces are enough to recognize a repetition
SHOWN = 80
"""Characters of a repetition that are shown as written: a number of many zeros is an answer."""


def counted(text: str) -> str:
    """The text with each repetition as its repeated piece and a count.

    >>> counted("no no no no no ")
    'no  x5 '
    """
    return REPEATED.sub(lambda match: f"{match['unit']} x{len(match[0]) // len(match['unit'])} ", text)


class FoldedStream:
    """Shows a text piece by piece as it is written; of a long repetition only the beginning and a count."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text = ""  # the end of what was shown
        self._unit = ""  # what is being repeated and no longer shown; empty outside of a long repetition
        self._held = ""  # the beginning of a unit, or of other text
        self._more = 0  # units that were not shown

    def add(self, piece: str) -> None:
        """Show the next piece, or count it."""
        self._held += piece
        while self._unit and self._held.startswith(self._unit):
            self._held = self._held[len(self._unit):]
            self._more += 1
        # What may become another repetition is held back.
        if self._unit and self._unit.startswith(self._held):
            return
        self.end()
        match = AT_THE_END.search(self._text)
        if match and len(match[0]) >= SHOWN:
            self._unit = match["unit"]

    def end(self) -> None:
        """Show the count of repetitions that were left out, and the text that was held back."""
        if self._more:
            self._show(f" … {self._more} times more … ")
        self._show(self._held)
        self._text = (self._text + self._held)[-LONGEST_REPETITION - SHOWN:]
        self._held, self._unit, self._more = "", "", 0
