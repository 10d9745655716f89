"""Environments of this project: a calculator as a tool, a walk over a frozen lake, and a number to guess."""

import random
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from workings.data.generators.base import rank
from workings.environments.base import Row, Step

_CALL = re.compile(r"^\s*(-?\d{1,12})\s*([+*-])\s*(-?\d{1,12})\s*=\s*$")
_NUMBER = re.compile(r"^\s*(-?\d{1,30})\s*\.?\s*$")
_GUESS = re.compile(r"\s*(\d{1,9})(?!\d)")
_EXAMPLE = [{"role": role, "content": text}
            for call, result in (("62 - 17", "45"), ("35 * 41", "1435"))
            for role, text in (("user", f"What is {call}?"), ("assistant", f"{call} ="),
                               ("user", result), ("assistant", result))]
"""Turns before each question, which a small model can copy."""
OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Place = tuple[int, int]


class Calculator:
    """Questions such as `What is 62 - 17?`. The model may have the operation computed before it answers.

    A turn `62 - 17 =` calls the calculator, which replies `45`. A number alone is the answer and ends the episode.
    """

    def __init__(self, *, digits: int = 3, operations: str = "+-*") -> None:
        """Tasks with numbers of so many digits. Raises ``ValueError`` for invalid arguments."""
        if not 1 <= digits <= 9 or not operations or set(operations) - {*OPERATIONS}:
            raise ValueError(f"digits from 1 to 9 and operations among +-*, not {digits} and {operations!r}")
        self._digits, self._operations = digits, operations

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Two numbers and an operation each."""
        for number in range(count):
            # Both numbers and the sign are digits of one hash in the base ``span``; with 3 digits 100 to 999 are 900.
            drawn = int.from_bytes(rank("calculator", seed, number)[:16])
            low, span = 10 ** (self._digits - 1), 9 * 10 ** (self._digits - 1)
            a, b = low + drawn % span, low + drawn // span % span
            sign = self._operations[drawn // span**2 % len(self._operations)]
            yield {"id": f"calculator-{number:06d}", "a": a, "sign": sign, "b": b,
                   "expected_answer": str(OPERATIONS[sign](a, b)), "history": _EXAMPLE}

    def reset(self, seed: int, row: Row) -> str:
        """The question."""
        self._expected, self._right_call = str(row["expected_answer"]), f"{row['a']}{row['sign']}{row['b']}"
        self._called = False
        return f"What is {row['a']} {row['sign']} {row['b']}?"

    def step(self, text: str) -> Step:
        """The result of an operation, or the end. Rewards: 0.2 if the first call is the right one, 0.8 if right."""
        call = _CALL.match(text)
        if call:
            a, sign, b = int(call[1]), call[2], int(call[3])
            is_right_call = not self._called and f"{a}{sign}{b}" == self._right_call
            self._called = True
            return Step(str(OPERATIONS[sign](a, b)), 0.2 if is_right_call else 0.0)
        answer = _NUMBER.match(text)
        is_right = answer is not None and str(int(answer[1])) == self._expected
        return Step("", 0.8 if is_right else 0.0, done=True)


class FrozenLake:
    """A square of ice with holes, after Gymnasium's; the model walks by `up`, `down`, `left` and `right`."""

    def __init__(self, *, size: int = 3, holes: int = 2) -> None:
        """Length of a side, and number of holes. Raises ``ValueError`` if they leave no way."""
        if not 2 <= size <= 9 or not 0 <= holes <= size * size - 2 * size + 1:
            raise ValueError(f"a size from 2 to 9 with holes that leave a way, not {size} and {holes}")
        self._size, self._holes = size, holes

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Lakes with a way to the goal; two may be the same."""
        for number in range(count):
            yield {"id": f"lake-{number:06d}", "lake": "\n".join(self._draw(seed, number)), "expected_answer": "goal"}

    def reset(self, seed: int, row: Row) -> str:
        """The lake with the model's place P."""
        self._lake, self._place = str(row["lake"]).split("\n"), (0, 0)
        self._distances = distances(self._lake)
        # One word per line, so that each is one token of a tokenizer that is trained on the tasks.
        return "\n".join(["Walk from P to G, not into H, with", *MOVES, self._shown()])

    def step(self, text: str) -> Step:
        """Move by the text's first word. Rewards: 1 at the goal, 0.1 for nearer, -0.1 for farther.

        The goal, a hole, and any other word end the episode.
        """
        move = MOVES.get("".join(text.split()[:1]))
        if move is None:
            return Step("", 0.0, done=True)
        row, column = self._place[0] + move[0], self._place[1] + move[1]
        target = (row, column) if _inside(self._lake, row, column) else self._place
        if self._lake[target[0]][target[1]] == "H":
            return Step("", 0.0, done=True)
        nearer = self._distances[self._place] - self._distances[target]
        self._place = target
        if not self._distances[target]:
            return Step("", 1.0, done=True)
        return Step(self._shown(), 0.1 * nearer)

    def _shown(self) -> str:
        rows = [list(row) for row in self._lake]
        rows[self._place[0]][self._place[1]] = "P"
        return "\n".join("".join(row) for row in rows)

    def _draw(self, seed: int, number: int) -> list[str]:
        cells = [(row, column) for row in range(self._size) for column in range(self._size)][1:-1]
        for again in range(1000):
            holes = sorted(cells, key=lambda cell: rank("lake", seed, number, again, cell))[:self._holes]
            lake = ["".join("H" if (row, column) in holes else "." for column in range(self._size))
                    for row in range(self._size)]
            lake[-1] = lake[-1][:-1] + "G"
            if (0, 0) in distances(lake):
                return lake
        raise ValueError(f"no way through {self._holes} holes in a lake of size {self._size}: fewer holes")


def distances(lake: list[str]) -> dict[Place, int]:
    """Place -> number of moves to the goal, for each place from which it can be reached; breadth first."""
    goal = (len(lake) - 1, len(lake[-1]) - 1)
    found, waiting = {goal: 0}, deque([goal])
    while waiting:
        row, column = waiting.popleft()
        for down, right in MOVES.values():
            cell = (row + down, column + right)
            if _inside(lake, *cell) and cell not in found and lake[cell[0]][cell[1]] != "H":
                found[cell] = found[row, column] + 1
                waiting.append(cell)
    return found


def _inside(lake: list[str], row: int, column: int) -> bool:
    return 0 <= row < len(lake) and 0 <= column < len(lake[row])


class GuessNumber:
    """The model guesses a number from 1 to `most`, and is told `higher` or `lower`."""

    def __init__(self, *, most: int = 8) -> None:
        """The largest number. Raises ``ValueError`` for one below 2."""
        if most < 2:
            raise ValueError(f"most of at least 2, not {most}")
        self._most = most

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Games with different ids, from which their seeds follow."""
        return ({"id": f"guess-{number:06d}"} for number in range(count))

    def reset(self, seed: int, row: Row) -> str:
        """The question; the seed decides the number."""
        # `random.Random` guarantees its stream only for `random`.
        self._secret = 1 + int(random.Random(seed).random() * self._most)  # noqa: S311 - a game, no secret
        self._low, self._high = 1, self._most
        return f"Guess a number from 1 to {self._most}. You are told higher or lower."

    def step(self, text: str) -> Step:
        """Guess the number that the text begins with. Rewards: 1 if right, 0.1 if the replies so far allow it.

        The right number, and a text without a number, end the game.
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
