r"""Asks math-verify whether two formulas are equal: sets, intervals, matrices and algebra (the scorer `math`).

math-verify drops units, takes the last side of any equation, and multiplies the letters of words. So it is asked only
about formulas that it reads as they are meant; numbers, choices and prose are left to `workings.answers`.
"""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import FrameType
from typing import Any

from workings.answers.latex import signs
from workings.answers.numbers import names_a_value, parse_number
from workings.answers.texts import UNION, without_brackets
from workings.answers.units import read_unit, same_units
from workings.errors import RequestError
from workings.hints import pip_install

LIMIT_SECONDS = 3.0
"""Limit on the processor time of one answer."""
AGAIN_SECONDS = 1.0
"""Seconds between two signals that the time is over. A second one is needed if Python drops the exception of the first
because it clears memory (in a finalizer or a callback of the collector)."""
MAX_CHARACTERS = 300
"""Maximum characters of a formula."""
LIBRARIES = ("math-verify", "sympy", "latex2sympy2_extended")
"""Libraries whose versions decide a verdict."""
# Powers of powers, exponents and factorials that would fill the memory.
_TOO_LARGE = re.compile(r"(?:\^|\*\*)[^+\-=,;]{0,40}(?:\^|\*\*)|(?:\^|\*\*)\s*[{(]?\s*-?\d{5,}|\d{5,}\s*!|!\s*!")
_FORMULA = re.compile(r"[\\^_√π∞=<>≤≥≠±∈∪∩{}\[\]()*+/×\d]")
_SIDE_BY_SIDE = re.compile(r"\s*[\d.]+(?:\s+[\d.]+)+\s*")
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textbf|textit|textrm)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+|\\.")
_WORD = re.compile(r"[^\W\d_]{2,}")
_COMMANDS = {"π": r"\pi", "∞": r"\infty", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "±": r"\pm", "∪": r"\cup",
             "∩": r"\cap", "∈": r"\in", "∅": r"\emptyset", "×": r"\times", "·": r"\cdot", "÷": r"\div", "θ": r"\theta",
             "°": r"^\circ"}
_FUNCTIONS = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "ln", "log", "exp",
                        "sqrt", "pi", "and", "or", "mod", "in"))
_RELATION = re.compile(r"[<>≤≥∈]|\\(?:leq?|geq?|lt|gt|in|infty|cup|cap|pm|begin)(?![a-zA-Z])|∞|∪|±")


class TooLong(BaseException):
    """The limit was reached. No ``Exception``, because sympy and math-verify catch those and continue."""


def libraries_version() -> str:
    """The libraries with their versions, as a record names them. Raises `RequestError` if one is not installed."""
    # Imported here, like `logging` below, because few of the processes that score need them.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    except PackageNotFoundError:
        raise RequestError("scorer: math needs math-verify", "the extra `score`", pip_install("score")) from None


def load() -> None:
    """Import math-verify, which takes a second."""
    import logging

    import_module("math_verify")
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns at every call that limits are ours


def same_mathematics(given: str, expected: str) -> bool:
    """Whether math-verify finds an answer equal to the expected one; false if it cannot be asked about them.

    Raises ``TimeoutError`` above `LIMIT_SECONDS` of processor time (where the system has interval timers).
    """
    # math-verify would also join the digits of numbers side by side.
    if len(given) > MAX_CHARACTERS or not _FORMULA.search(expected) or _SIDE_BY_SIDE.fullmatch(given):
        return False
    formula = given.strip().strip("*$ ").removeprefix("\\(").removesuffix("\\)").removeprefix("\\[").removesuffix("\\]")
    with _limited():
        return bool(formula) and asked_libraries(formula.strip(), expected.strip())


@lru_cache(maxsize=10_000)
def asked_libraries(given: str, expected: str) -> bool:
    """Whether math-verify calls two texts the same."""
    left, _, right = given.rpartition("=")
    # math-verify compares all sides of a chain of equations, but only the last one is the value.
    is_chain = "=" in left and "=" not in expected and not _RELATION.search(given) and names_a_value(left)
    value = right if is_chain else given
    if any(len(text) > MAX_CHARACTERS or _TOO_LARGE.search(text) for text in (value, expected)):
        return False
    # Two numbers are compared by our own scorer, with their units and exactly.
    if parse_number(value) is not None and parse_number(expected) is not None:
        return False
    given_latex, expected_latex = _latex(value), _latex(expected)
    # math-verify would leave out unknown signs and indices.
    given_has_index, expected_has_index = ("_" in text.replace("\\log_", "") for text in (given_latex, expected_latex))
    if not (given_latex.isascii() and expected_latex.isascii()) or given_has_index != expected_has_index:
        return False
    if not _comparable_words(given_latex, expected_latex) or not _comparable_forms(given_latex, expected_latex):
        return False
    load()
    from math_verify import parse, verify

    target, answer = (parse(f"${text}$", parsing_timeout=None) for text in (expected_latex, given_latex))
    equal = verify(target, answer, timeout_seconds=None)
    # An inequality and its interval are equal, which math-verify finds in one direction only.
    if not equal and _RELATION.search(given_latex):
        equal = verify(answer, target, timeout_seconds=None)
    return equal and not (target and answer and told_apart(target[0], answer[0]))


def _latex(text: str) -> str:
    """Signs of mathematics as the commands that math-verify reads."""
    text = re.sub(r"√\s*(\d+|[a-zA-Z])", r"\\sqrt{\1}", re.sub(r"√\s*\(([^()]*)\)", r"\\sqrt{\1}", signs(text)))
    return re.sub("[" + "".join(_COMMANDS) + "]", lambda sign: f" {_COMMANDS[sign[0]]} ", text)


def _comparable_words(given: str, expected: str) -> bool:
    """Whether the words next to two formulas are units, and these do not contradict each other."""
    # A product of letters would be mistaken for a unit.
    product = r"\d(?!(?:km|cm|mm|kg|mg|ml|ft|in|lb|oz)\b)[a-zA-Z]{2,}"
    if any(re.search(product, _COMMAND.sub(" ", text)) for text in (given, expected)):
        return False
    given_words, expected_words = _words(given), _words(expected)
    given_unit, expected_unit = read_unit(" ".join(given_words)), read_unit(" ".join(expected_words))
    are_prose = (given_words and given_unit is None) or (expected_words and expected_unit is None)
    if are_prose or len(given_words) > 3:
        return False
    return given_unit is None or expected_unit is None or same_units(given_unit, expected_unit)


def _words(text: str) -> list[str]:
    """The words of a formula: no functions, and no variables of one letter."""
    said = " ".join(_TEXT.findall(text))
    rest = _COMMAND.sub(" ", re.sub(r"\\begin\{[^{}]*\}|\\end\{[^{}]*\}", " ", _TEXT.sub(" ", text)))
    # `ABC` is a triangle and no product, which would equal `BCA`.
    return [word for word in (*_WORD.findall(rest), *re.findall(r"[^\W\d_]+", said))
            if word.casefold() not in _FUNCTIONS]


def _comparable_forms(given: str, expected: str) -> bool:
    """Whether brackets and equations of two formulas are of one kind, which math-verify does not compare."""
    # A union is no number, and `x^2+y^2=13` is not 13; but `y=2x+3` says `2x+3`.
    for one, other in ((given, expected), (expected, given)):
        if UNION.search(one) and not (_RELATION.search(other) or re.search(r"[(\[{]", other)):
            return False
        if "=" in one and "=" not in other and not names_a_value(one.rpartition("=")[0]):
            return _RELATION.search(other) is not None
    # A pair is no set, and an open interval is no closed one.
    given_brackets, expected_brackets = (without_brackets(re.sub(r"\\(?:left|right)(?![a-z])", "", text))[1]
                                         for text in (given, expected))
    has_parts = any(re.search("[,;]", text) for text in (given, expected))
    if not has_parts or given_brackets == expected_brackets:
        return True
    if given_brackets and expected_brackets:
        return False
    # A set may be written without braces, and "x > 3" says `(3, \infty)`.
    is_set = "{}" in (given_brackets, expected_brackets)
    return is_set or _RELATION.search(expected if given_brackets else given) is not None


@contextmanager
def _limited() -> Iterator[None]:
    """Raise ``TimeoutError`` if a block takes more processor time than `LIMIT_SECONDS`; only in the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    # A signal, because the library may stay in one call for hours.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS, AGAIN_SECONDS)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TooLong:
        raise TimeoutError(f"math-verify needed more than {LIMIT_SECONDS:g} s of processor time") from None
    finally:
        # Stopped again, in case a second signal came just before: without a handler a signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


DIGITS = 60
"""Digits to which values are worked out for a comparison."""
EXACT_ERROR = 1e-40
FLOAT_ERROR = 1e-9
_POINTS = ((3, 7), (11, 5))
"""Where formulas are compared: 3/7 for the first unknown, 4/7 for the second one, …; then 11/5, 12/5, …"""
_ONE_POINT = ((3, 7),)  # without unknowns the value is the same at every point


def told_apart(one: Any, other: Any) -> bool:
    """Whether two values of sympy differ; sets, tuples, intervals and matrices are compared by their parts."""
    from sympy import Basic, Eq, FiniteSet, Interval, MatrixBase, Set, Tuple
    from sympy.core.relational import Relational

    def parts_of(value: Any) -> list[Any] | None:
        if isinstance(value, MatrixBase):
            return [*value.flat(), value.shape]
        if isinstance(value, Interval):
            return [value.start, value.end]
        return list(value.args) if isinstance(value, FiniteSet | Tuple) else None

    one, other = (value.rhs if isinstance(value, Eq) and value.lhs.is_Symbol else value for value in (one, other))
    parts, other_parts = parts_of(one), parts_of(other)
    if parts is not None and other_parts is not None:
        if isinstance(one, FiniteSet) or isinstance(other, FiniteSet):
            return not all(any(not told_apart(part, another) for another in other_parts) for part in parts)
        return len(parts) != len(other_parts) or any(map(told_apart, parts, other_parts))
    if any(isinstance(value, Set | Tuple | MatrixBase | Relational) or not isinstance(value, Basic)
           for value in (one, other)):
        return False
    return _differ(one, other)


def _differ(one: Any, other: Any) -> bool:
    """Whether two numbers differ, or two formulas at one of the `_POINTS`; false if they cannot be worked out."""
    from sympy import Float, Rational

    try:
        one, other = one.doit(), other.doit()
        limit = FLOAT_ERROR if one.has(Float) or other.has(Float) else EXACT_ERROR
        unknowns = sorted(one.free_symbols | other.free_symbols, key=str)
        for top, bottom in _POINTS if unknowns else _ONE_POINT:
            at = {unknown: Rational(top + place, bottom) for place, unknown in enumerate(unknowns)}
            first, second = (value.subs(at).evalf(DIGITS) for value in (one, other))
            if first.is_zero or second.is_zero:
                return bool(first.is_zero) != bool(second.is_zero)
            if abs(complex((first / second - 1).evalf(DIGITS))) > limit:
                return True
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return False
    return False
