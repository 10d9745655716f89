"""A calculator as a tool: the model asks it for one operation of two numbers, and then answers."""

import re
from collections.abc import Iterator
from typing import Any

from workings.data.generators.base import rank
from workings.environments.base import Row, Step

_ASKED = re.compile(r"^\s*(-?\d{1,12})\s*([+*-])\s*(-?\d{1,12})\s*=\s*$")
_NUMBER = re.compile(r"^\s*(-?\d{1,30})\s*\.?\s*$")
_EXAMPLE = [{"role": role, "content": text}
            for call, result in (("62 - 17", "45"), ("35 * 41", "1435"))
            for role, text in (("user", f"What is {call}?"), ("assistant", f"{call} ="),
                               ("user", result), ("assistant", result))]
"""Turns before each question: a model of 135 million parameters copies examples but does not follow rules."""
OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


class Calculator:
    """Sums, differences and products that are too large for a small model's head.

    A turn `A + B =` is an operation, whose result is shown; a number alone is the answer, which ends the episode.
    """

    def __init__(self, *, digits: int = 3, operations: str = "+-*") -> None:
        """Tasks with numbers of this many digits.

        Raises:
            ValueError: no digits, too many, or an operation that does not exist.
        """
        if not 1 <= digits <= 9 or not operations or set(operations) - {*OPERATIONS}:
            raise ValueError(f"digits from 1 to 9 and operations among +-*, not {digits} and {operations!r}")
        self._digits, self._operations = digits, operations
        self._expected, self._right_call, self._called = "", "", False

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Two numbers and an operation each."""
        for number in range(count):
            drawn = int.from_bytes(rank("calculator", seed, number)[:16])
            low, span = 10 ** (self._digits - 1), 9 * 10 ** (self._digits - 1)
            a, b = low + drawn % span, low + drawn // span % span
            sign = self._operations[drawn // span**2 % len(self._operations)]
            yield {"id": f"calculator-{number:06d}", "a": a, "sign": sign, "b": b,
                   "expected_answer": str(OPERATIONS[sign](a, b)), "history": _EXAMPLE}

    def reset(self, seed: int, row: Row) -> str:
        """The question; nothing is random."""
        del seed
        self._expected, self._right_call = str(row["expected_answer"]), f"{row['a']}{row['sign']}{row['b']}"
        return f"What is {row['a']} {row['sign']} {row['b']}?"

    def step(self, text: str) -> Step:
        """The result of an operation (reward 0.2 for the requested one), or 0.8 for the correct answer."""
        if asked := _ASKED.match(text):
            a, sign, b = asked.groups()
            # Once only: a model must not live on asking.
            earns = 0.2 if not self._called and f"{int(a)}{sign}{int(b)}" == self._right_call else 0.0
            self._called = True
            return Step(f"{OPERATIONS[sign](int(a), int(b))}", earns)
        answer = _NUMBER.match(text)
        right = answer is not None and str(int(answer[1])) == self._expected
        return Step("", 0.8 if right else 0.0, done=True)
