"""The scoring functions: `answer`, `contains`, `exact`, `math`, and functions of a user (``FILE.py:FUNCTION``).

Each has a version; scorecards of different versions are not comparable. The version of a user's function is the digest
of its file. That file is executed only in the scoring process, and never by a reader of scorecards.
"""

import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.answers.choices import choice_in, option_letter
from workings.answers.contains import says
from workings.answers.extract import answer_kind
from workings.answers.texts import same_answer, same_text
from workings.errors import RequestError
from workings.record.digest import file_digest
from workings.scoring.items import Item
from workings.scoring.mathematics import libraries_version, load, same_mathematics

ScoreFunction = Callable[[str, Item], float]
"""Extracted answer and item to a score from 0.0 (wrong) to 1.0 (right)."""


def is_score(value: object) -> bool:
    """Whether a value is the score of a completion: a number from 0 (wrong) to 1 (right), and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


@dataclass(frozen=True, slots=True)
class Scorer:
    """A scoring function."""

    version: str
    score: ScoreFunction
    libraries: bool = False
    """Whether libraries decide with it (`workings.scoring.mathematics`)."""


CONTAINS = "contains"
"""The scorer for names and phrases; it looks through the final sentences."""


def needs_library(name: str) -> bool:
    """Whether a library decides with the scorer of this name, which may be missing or another version elsewhere."""
    return name in SCORERS and SCORERS[name].libraries


def get_scorer(name: str) -> Scorer:
    """The registered scorer of this name. Raises `RequestError` if none exists, or its library is not installed."""
    if name not in SCORERS:
        raise RequestError(f"scorer: {name} is unknown", f"one of {', '.join(sorted(SCORERS))}, or FILE.py:FUNCTION")
    scorer = SCORERS[name]
    if not scorer.libraries:
        return scorer
    # The libraries decide scores, so their versions are part of the scorer's.
    return replace(scorer, version=f"{scorer.version} ({libraries_version()})")


def scorer_version(name: str) -> tuple[str, str]:
    """Recorded name and version of a scorer, without executing the user's code."""
    if ".py:" not in name:
        return name, get_scorer(name).version
    path, function = _parts(name)
    return f"{path.name}:{function}", f"sha256:{file_digest(path)}"


def load_scorer(name: str) -> ScoreFunction:
    """The function of a registered scorer, or of a file. Executes that file."""
    if ".py:" in name:
        path, function = _parts(name)
        return run_file("scorer", path, "function", function)
    scorer = get_scorer(name)
    if scorer.libraries:
        load()  # now, so that it does not count for the first answer
    return scorer.score


def run_file(owner: str, path: Path, kind: str, name: str, *, unchanged: bool = True) -> Callable[..., Any]:
    """The ``kind`` (function or class) of this name in a user's file, which is executed.

    Raises `RequestError` about ``owner`` if the file is not ``unchanged`` since its digest was recorded, or has no such
    name.
    """
    if not unchanged:
        raise RequestError(f"{owner}: {path} has changed since its digest was recorded", "the file that was recorded")
    found = runpy.run_path(str(path)).get(name)
    if not callable(found):
        raise RequestError(f"{owner}: {path} has no {kind} {name}", f"a {kind} of that name")
    return found


def _parts(name: str) -> tuple[Path, str]:
    path, _, function = name.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        raise RequestError(f"scorer: {name} has no file", "FILE.py:FUNCTION, with a file that exists")
    return Path(path), function


def answer(given: str, item: Item) -> float:
    """Compares numbers by value within the tolerance, choices by letter, names like `contains`, others as texts.

    A list is compared in its order if the question asks for one; aliases count as well.
    """
    kind = answer_kind(item.expected_answer, item.prompt, item.aliases)
    expected = (item.expected_answer, *item.aliases)
    if kind == "choice":
        letters = {choice_in(each, item.prompt) or option_letter(each, item.prompt) or each for each in expected}
        return float(given in letters or choice_in(given, item.prompt) in letters - {None})
    if kind == "name" and not asks_for_order(item.prompt):
        return contains(given, item)
    return float(_in_order(given, item) and any(same_answer(given, each, item.tolerance) for each in expected))


def contains(given: str, item: Item) -> float:
    """Whether the answer says the expected name or phrase, or an alias: not denied, and not as one of several."""
    expected = (item.expected_answer, *item.aliases)
    return float(any(same_text(given, each) for each in expected) or says(given, expected))


def exact(given: str, item: Item) -> float:
    """Whether the answer has the same characters, outer white space aside; aliases count as well."""
    return float(given.strip() in {expected.strip() for expected in (item.expected_answer, *item.aliases)})


def math(given: str, item: Item) -> float:
    """Compares like `answer`, else asks math-verify about formulas. Raises ``TimeoutError`` if it takes too long."""
    score = answer(given, item)
    if score or not _in_order(given, item):
        return score
    return float(any(same_mathematics(given, expected) for expected in (item.expected_answer, *item.aliases)))


_ORDERED = re.compile(
    r"\b(?:in (?:[a-z]+ )?order|order (?:the|these|from)|sort|arrange (?:the numbers|in|from)|concatenate"
    r"|smallest to largest|largest to smallest|least to greatest|greatest to least)\b", re.IGNORECASE)


def asks_for_order(question: str) -> bool:
    """Whether a question asks for a list in an order."""
    return _ORDERED.search(question) is not None


def _in_order(given: str, item: Item) -> bool:
    """Whether a list has the expected order, if one is required."""
    places = [given.find(part.strip()) for part in item.expected_answer.split(",")]
    return -1 in places or places == sorted(places) or not asks_for_order(item.prompt)


SCORERS = {"answer": Scorer("5", answer), CONTAINS: Scorer("3", contains), "exact": Scorer("1", exact),
           "math": Scorer("4", math, libraries=True)}
"""By name. A version is raised whenever a score changes."""
