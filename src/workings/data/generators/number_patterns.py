"""Sequences whose next number follows from a rule."""

import itertools

from workings.data.generators.base import Draw, Kind, Problem


def _listed(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def equal_steps(draw: Draw) -> Problem:
    """3, 7, 11, 15: what comes next?"""
    # A step of 0 would show the answer.
    start, step = draw.integer(0, 60), draw.choice([step for step in range(-9, 16) if step])
    numbers = [start + step * index for index in range(5)]
    shown = [f"{b}-{a}={step}" if a >= 0 else f"{b}-({a})={step}" for a, b in itertools.pairwise(numbers[:4])]
    last, answer = numbers[3], numbers[4]
    sign = "+" if step > 0 else "-"
    return Problem(
        prompt=f"{_listed(numbers[:4])}: what comes next?", steps=(*shown, f"{last}{sign}{abs(step)}={answer}"),
        answer=str(answer), key=("equal_steps", start, step), category="equal_steps",
        section="edge_case" if answer <= 0 else "core", difficulty="medium" if step < 0 else "easy")


def growing_steps(draw: Draw) -> Problem:
    """2, 3, 5, 8: the steps grow by the same amount."""
    start, first, growth = draw.integer(0, 40), draw.integer(1, 12), draw.integer(1, 7)
    numbers = [start]
    # Five numbers in all: four are shown and the fifth is the answer.
    for index in range(4):
        numbers.append(numbers[-1] + first + growth * index)
    differences = [b - a for a, b in itertools.pairwise(numbers[:4])]
    following = differences[-1] + growth
    steps = [f"{b}-{a}={b - a}" for a, b in itertools.pairwise(numbers[:4])]
    steps += [f"{differences[1]}-{differences[0]}={growth}", f"{differences[-1]}+{growth}={following}",
              f"{numbers[3]}+{following}={numbers[4]}"]
    return Problem(prompt=f"{_listed(numbers[:4])}: what comes next?", steps=tuple(steps), answer=str(numbers[4]),
                   key=("growing_steps", start, first, growth), category="growing_steps", section="trace_sensitive",
                   difficulty="hard")


def asked_factor(draw: Draw) -> Problem:
    """3, 6, 12, 24: which number follows?"""
    start, factor = draw.integer(1, 25), draw.integer(2, 6)
    numbers = [start * factor**index for index in range(5)]
    steps = [f"{b}/{a}={factor}" for a, b in itertools.pairwise(numbers[:4])]
    return Problem(prompt=f"Which number follows: {_listed(numbers[:4])}?",
                   steps=(*steps, f"{numbers[3]}*{factor}={numbers[4]}"), answer=str(numbers[4]),
                   key=("factor", start, factor), category="factor", section="trace_sensitive")


def asked_missing(draw: Draw) -> Problem:
    """3, 7, ?, 15: which number is missing?"""
    start, step = draw.integer(0, 90), draw.integer(2, 19)
    a, b, missing, d = (start + step * index for index in range(4))
    return Problem(prompt=f"Which number is missing: {a}, {b}, ?, {d}?",
                   steps=(f"{b}-{a}={step}", f"{b}+{step}={missing}", f"{missing}+{step}={d}, as it must be"),
                   answer=str(missing), key=("missing", start, step), category="equal_steps",
                   section="edge_case" if start == 0 else "core", difficulty="easy")


KIND = Kind(name="number_patterns", trained=(equal_steps, growing_steps), asked=(asked_factor, asked_missing))
