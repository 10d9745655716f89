"""Data sets of one or several kinds: training and evaluation disjoint by template and problem, every step checked."""

from collections.abc import Sequence

from workings.data.equations.check import wrong_equations
from workings.data.generators import arithmetic, comparison, geometry, number_patterns, unit_conversion, word_problems
from workings.data.generators.base import Draw, ItemRecord, Kind, Problem, rank
from workings.data.traces import Trace
from workings.errors import RequestError

VERSION = 1
"""Raised whenever the same seed would give other problems or other texts."""

KINDS: dict[str, Kind] = {module.KIND.name: module.KIND for module in (
    arithmetic, word_problems, unit_conversion, number_patterns, geometry, comparison)}
"""The kinds that `workings data make` knows, besides `addition`."""

_ATTEMPTS = 400
"""Draws for one problem before the kind is taken for exhausted."""
_SHARE_ASKED = 64
"""Problem keys of 256 that are kept for evaluation."""


def make(kinds: Sequence[str], n_train: int, n_items: int, seed: int) -> tuple[list[Trace], list[ItemRecord]]:
    """Training traces and evaluation items, the kinds in turn.

    No template of an item is a template of a trace, and no problem (operation and operands) is on both sides.

    Raises:
        RequestError: for an unknown kind, or when a kind has fewer problems than asked for.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds or len(set(kinds)) != len(kinds):
        raise RequestError(f"kinds: {', '.join(kinds) or 'none'}", f"some of {', '.join(KINDS)}, each once",
                           "workings data list")
    if n_train < 0 or n_items < 0 or n_train + n_items == 0:
        raise RequestError(f"{n_train} traces and {n_items} items", "at least one of either")
    trained = _drawn(kinds, n_train, seed, asked=False)
    # The same seed on both sides is no leak: a key decides on which side a problem may stand.
    evaluation_problems = _drawn(kinds, n_items, seed, asked=True)
    source = f"workings:{'+'.join(kinds)} version {VERSION} seed {seed}"
    traces = [Trace(id=f"{kind}-{number:06d}", prompt=problem.prompt, steps=problem.steps, answer=problem.answer,
                    section=problem.section, category=f"{kind}/{problem.category}", difficulty=problem.difficulty,
                    source=source, licence="CC0-1.0")
              for number, (kind, problem) in enumerate(trained)]
    items = [ItemRecord(id=f"{kind}-item-{number:06d}", prompt=problem.prompt, expected_answer=problem.answer,
                        section=problem.section, category=f"{kind}/{problem.category}", difficulty=problem.difficulty)
             for number, (kind, problem) in enumerate(evaluation_problems)]
    return traces, items


def _drawn(kinds: Sequence[str], count: int, seed: int, *, asked: bool) -> list[tuple[str, Problem]]:
    problems: list[tuple[str, Problem]] = []
    seen: set[object] = set()
    for number in range(count):
        kind = KINDS[kinds[number % len(kinds)]]
        templates = kind.asked if asked else kind.trained
        template_number = number // len(kinds) % len(templates)
        for attempt in range(_ATTEMPTS):
            # A stream for each number and attempt, so a longer set begins with the shorter one.
            draw = Draw(seed, VERSION, kind.name, "asked" if asked else "trained", number, attempt)
            # a template with few problems gives way to the others
            template = templates[(template_number + attempt // (_ATTEMPTS // len(templates))) % len(templates)]
            problem = template(draw)
            # The key alone decides the side, so traces and items share no problem although they are drawn apart.
            side = rank(seed, "side", *problem.key)[0] < _SHARE_ASKED
            if side is asked and problem.key not in seen and problem.prompt not in seen:
                break
        else:
            raise RequestError(f"{count} problems of {', '.join(kinds)}",
                               f"fewer: after {number} problems, {kind.name} gives hardly anything new",
                               "a smaller --n")
        _check(kind.name, problem)
        # In one set: a key is a tuple and a prompt a text, so they are never taken for each other.
        seen.update((problem.key, problem.prompt))
        problems.append((kind.name, problem))
    return problems


def _check(kind: str, problem: Problem) -> None:
    """Compute every equation again, by the reader that also checks other people's data."""
    wrong = [equation for step in problem.steps for equation in wrong_equations(step)]
    if wrong or not problem.steps:
        # A wrong problem is a fault of this package and not of the request.
        raise AssertionError(f"generator {kind} is wrong: {problem.prompt!r}: {wrong or 'no steps'}")
