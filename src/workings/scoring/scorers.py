"""Scoring functions by name and version, and a person's own from a file (``FILE.py:FUNCTION``).

Scorecards of different versions are not comparable. A person's file is executed only where that person names it, and
only in the scoring process; nothing that reads a scorecard later executes it. Its version is the digest of its bytes.
"""

import re
import runpy
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workings.errors import RequestError
from workings.record.digest import file_digest
from workings.scoring.extract import Kind, only_number
from workings.scoring.items import Item
from workings.scoring.numbers import equal_numbers, parse_number

ScoreFunction = Callable[[str, Item], float]
"""Extracted answer and item to a score from 0.0 (wrong) to 1.0 (right)."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """A registered scoring function."""

    name: str
    version: str
    score: ScoreFunction


SCORERS: dict[str, Scorer] = {}


def register(name: str, version: str) -> Callable[[ScoreFunction], ScoreFunction]:
    """Register a scoring function; a second one under the same name is refused."""
    def add(function: ScoreFunction) -> ScoreFunction:
        if name in SCORERS:
            raise RequestError(f"scorer {name!r}", "a name that is not registered yet")
        SCORERS[name] = Scorer(name, version, function)
        return function
    return add


def get_scorer(name: str) -> Scorer:
    """The registered scorer of this name. Raises `RequestError` with the names that exist."""
    if name not in SCORERS:
        raise RequestError(f"scorer: {name}", f"one of {', '.join(sorted(SCORERS))}, or FILE.py:FUNCTION")
    return SCORERS[name]


def scorer_version(name: str) -> tuple[str, str]:
    """Recorded name and version of a scorer, without executing anything of the person's."""
    if ".py:" not in name:
        return name, get_scorer(name).version
    path, function = _parts(name)
    return f"{path.name}:{function}", f"sha256:{file_digest(path)}"


def load_scorer(name: str) -> Scorer:
    """The registered scorer, or the function of a file. Executes that file."""
    if ".py:" not in name:
        return get_scorer(name)
    path, function = _parts(name)
    # The digest is taken before the file runs, because code can change the file that it stands in.
    recorded, version = scorer_version(name)
    namespace = runpy.run_path(str(path))
    if not callable(namespace.get(function)):
        raise RequestError(f"scorer: {name}", f"a function {function}(answer, item) in {path.name}")
    return Scorer(recorded, version, namespace[function])


def _parts(name: str) -> tuple[Path, str]:
    path, _, function = name.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        raise RequestError(f"scorer: {name}", "FILE.py:FUNCTION, with a file that exists")
    return Path(path), function


def answer_kind(item: Item) -> Kind:
    """Whether the expected answer is a number or a text."""
    return "number" if parse_number(item.expected_answer) is not None else "text"


@register("answer", "1")
def answer(given: str, item: Item) -> float:
    """Numbers by value (within the item's tolerance), texts by normalised match; aliases count as well.

    Where a number is expected, a sentence that holds exactly one number stands for it; one that holds several does not.
    """
    # The whole text first: "1 1/2" is one number as a whole and several when they are searched for.
    number = parse_number(given) or parse_number(only_number(given))
    for expected in (item.expected_answer, *item.aliases):
        target = parse_number(expected)
        if target is not None and number is not None:
            if equal_numbers(number, target, item.tolerance):
                return 1.0
        # Reached also where only one of the two is a number: then they differ unless their texts are equal.
        elif normalise_text(given) == normalise_text(expected):
            return 1.0
    return 0.0


@register("exact", "1")
def exact(given: str, item: Item) -> float:
    """The very same characters, outer white space aside; aliases count as well."""
    return float(given.strip() in {expected.strip() for expected in (item.expected_answer, *item.aliases)})


def normalise_text(text: str) -> str:
    """Lower case, one space between words, no outer punctuation, no leading article.

    >>> normalise_text("**The  Eiffel Tower.**")
    'eiffel tower'
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}", r"\1", text)
    text = " ".join(text.split()).strip(" \"'`*_.,;:!?()[]{}$")
    return re.sub(r"^(?:the|an|a) (?=.)", "", text)
