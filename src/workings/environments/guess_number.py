"""Guess the number: each wrong guess is answered by `higher` or `lower`."""

import random
import re
from collections.abc import Iterator
from typing import Any

from workings.environments.base import Row, Step

_GUESS = re.compile(r"\s*(\d{1,9})(?!\d)")


class GuessNumber:
    """A number from 1 to `most`, from the seed."""

    def __init__(self, *, most: int = 8) -> None:
        """The largest number. Raises ``ValueError`` for one below 2."""
        if most < 2:
            raise ValueError(f"most of at least 2, not {most}")
        self._most, self._secret, self._low, self._high = most, 0, 1, most

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Games with different ids, which determine their seeds."""
        del seed
        return ({"id": f"guess-{number:06d}"} for number in range(count))

    def reset(self, seed: int, row: Row) -> str:
        """The question; the number follows from the seed."""
        del row
        # `random.Random` guarantees its stream only for `random`.
        self._secret = 1 + int(random.Random(seed).random() * self._most)  # noqa: S311 - a game, no secret
        self._low, self._high = 1, self._most
        return f"Guess a number from 1 to {self._most}. You are told higher or lower."

    def step(self, text: str) -> Step:
        """1 for the number; 0.1 for another one that the replies so far leave possible; no number ends the game.

        The number that the text begins with counts.
        """
        guess = _GUESS.match(text)
        if guess is None:
            return Step("", 0.0, done=True)
        number = int(guess[1])
        if number == self._secret:
            return Step("", 1.0, done=True)
        possible = self._low <= number <= self._high
        if number < self._secret:
            self._low = max(self._low, number + 1)
        else:
            self._high = min(self._high, number - 1)
        return Step("higher" if number < self._secret else "lower", 0.1 if possible else 0.0)
