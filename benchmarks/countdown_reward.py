"""Whether an equation reaches its target with each of its numbers once: a scorer and a reward for Countdown."""

import ast
import operator
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

LONGEST = 200
"""Characters of an answer that are read."""
FORM_REWARD = 0.1
"""Reward of a wrong answer between tags, as published."""
_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def solves(equation: str, numbers: list[int], target: int) -> bool:
    """Whether an equation uses exactly these numbers and is worth the target.

    >>> solves("(1 + 2) * 3", [1, 2, 3], 9), solves("3 * 3", [1, 2, 3], 9)
    (True, False)
    """
    try:
        tree = ast.parse(equation.partition("=")[0].strip()[:LONGEST], mode="eval").body
        used: list[int] = []
        return _value(tree, used) == target and Counter(used) == Counter(numbers)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False


def _value(node: ast.expr, used: list[int]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, used), _value(node.right, used))
    raise ValueError("no arithmetic")


def score(answer: str, item: Any) -> float:
    """A scorer for `workings eval`: 1 or 0."""
    return float(solves(answer, item.extra["nums"], item.extra["target"]))


def reward(prompts: list[str], completions: list[str], nums: list[list[int]], target: list[int],
           **columns: Any) -> list[float]:
    """A reward for a recipe: 1, `FORM_REWARD` or 0 for each completion."""
    del prompts, columns
    found = [completion.rpartition("<answer>")[2].partition("</answer>") for completion in completions]
    return [(1.0 if solves(said, numbers, wanted) else FORM_REWARD) if end else 0.0
            for (said, end, _), numbers, wanted in zip(found, nums, target, strict=True)]
