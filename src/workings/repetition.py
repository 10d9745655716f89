"""Repetitions of a model that has learned little: they are counted, because many lines of them tell no more."""

import re
from collections.abc import Callable

REPEATED = re.compile(r"(?P<unit>(?:\\.|[^\\]){1,40}?)(?P=unit){3,}", re.DOTALL)
"""A piece of text at least four times in a row; an escape such as ``\\n`` is never cut in two."""
AT_THE_END = re.compile(r"(?P<unit>.{1,40}?)(?P=unit){3,}\Z", re.DOTALL)
SHOWN = 80
"""Characters of a repetition that are shown as written: a number of many zeros is an answer."""


def counted(text: str) -> str:
    """The text with repetitions counted.

    >>> counted("no no no no no ")
    'no  x5 '
    """
    # The shortest piece that repeats is counted, because the pattern takes as few characters as it can.
    return REPEATED.sub(lambda match: f"{match['unit']} x{len(match[0]) // len(match['unit'])} ", text)


class FoldedStream:
    """Text that is shown as it is written, but for the rest of a long repetition, which is counted."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text = self._held = self._unit = ""
        self._more = 0

    def add(self, piece: str) -> None:
        """Shows the next piece, or counts it."""
        self._held += piece
        while self._unit and self._held.startswith(self._unit):
            self._held = self._held[len(self._unit):]
            self._more += 1
        # The beginning of another repetition waits.
        if self._unit and self._unit.startswith(self._held):
            return
        self.end()
        match = AT_THE_END.search(self._text)
        if match and len(match[0]) >= SHOWN:
            self._unit = match["unit"]

    def end(self) -> None:
        """Shows the count of what was left out, and what was held back."""
        if self._more:
            self._show(f" … {self._more} times more … ")
        self._show(self._held)
        # Four of the longest repetitions are enough to find one.
        self._text = (self._text + self._held)[-4 * 40 - SHOWN:]
        self._held, self._unit, self._more = "", "", 0
