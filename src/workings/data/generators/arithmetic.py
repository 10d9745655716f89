"""Additions and subtractions of 3-digit numbers column by column, and multiplications by partial products."""

from workings.data.generators.base import Draw, Kind, Problem

_LEVELS = ("easy", "medium", "hard")
_PLACES = ("ones", "tens", "hundreds")


def _level(count: int) -> str:
    return _LEVELS[min(count, 2)]


def _section(hard_columns: int, zeros: bool) -> str:
    return "trace_sensitive" if hard_columns > 1 else "edge_case" if zeros else "core"


def _digits(number: int) -> list[int]:
    # Ones first, because that is the way in which a carry travels.
    return [int(digit) for digit in reversed(f"{number:03d}")]


def _added(draw: Draw, words: str) -> Problem:
    a, b = draw.integer(100, 999), draw.integer(100, 999)
    steps, carry, carries = [], 0, 0
    for place_name, x, y in zip(_PLACES, _digits(a), _digits(b), strict=True):
        total = x + y + carry
        spelled = f"{x}+{y}" + (f"+{carry}" if carry else "")
        carry = total // 10
        carries += carry
        steps.append(f"{place_name}: {spelled}={total}, write {total % 10} carry {carry}")
    steps.append(f"{a}+{b}={a + b}")
    # `a+b` and `b+a` are one problem, which must not be trained in one order and asked in the other.
    return Problem(prompt=words.format(a=a, b=b), steps=tuple(steps), answer=str(a + b), key=("add", *sorted((a, b))),
                   category="addition", difficulty=_level(carries), section=_section(carries, 0 in _digits(a + b)))


def _subtracted(draw: Draw, words: str) -> Problem:
    # The larger one first, so that the difference is never negative.
    a, b = sorted((draw.integer(100, 999), draw.integer(100, 999)), reverse=True)
    steps, borrow, borrows = [], 0, 0
    for place_name, x, y in zip(_PLACES, _digits(a), _digits(b), strict=True):
        top = x - borrow
        taken = f"{x}-{borrow}={top}, " if borrow else ""
        borrow = int(top < y)
        borrows += borrow
        lent = f"borrow 10, {top + 10}-{y}={top + 10 - y}" if borrow else f"{top}-{y}={top - y}"
        steps.append(f"{place_name}: {taken}{lent}")
    steps.append(f"{a}-{b}={a - b}")
    return Problem(prompt=words.format(a=a, b=b), steps=tuple(steps), answer=str(a - b), key=("subtract", a, b),
                   category="subtraction", difficulty=_level(borrows), section=_section(borrows, 0 in _digits(a)))


def _multiplied(draw: Draw, words: str) -> Problem:
    a, b = draw.integer(12, 99), draw.integer(3, 99)
    tens, ones = a // 10 * 10, a % 10
    steps = (f"{tens}*{b}={tens * b}", f"{ones}*{b}={ones * b}", f"{tens * b}+{ones * b}={a * b}")
    return Problem(prompt=words.format(a=a, b=b), steps=steps, answer=str(a * b), key=("multiply", *sorted((a, b))),
                   category="multiplication", difficulty=_level((b > 9) + (a * b > 999)),
                   section="edge_case" if ones == 0 else "trace_sensitive" if b > 9 else "core")


def trained_addition(draw: Draw) -> Problem:
    """What is 478+356?"""
    return _added(draw, "What is {a}+{b}?")


def trained_subtraction(draw: Draw) -> Problem:
    """What is 832-457?"""
    return _subtracted(draw, "What is {a}-{b}?")


def trained_multiplication(draw: Draw) -> Problem:
    """What is 47*8?"""
    return _multiplied(draw, "What is {a}*{b}?")


def asked_addition(draw: Draw) -> Problem:
    """Add 478 and 356."""
    return _added(draw, "Add {a} and {b}.")


def asked_subtraction(draw: Draw) -> Problem:
    """Subtract 457 from 832."""
    return _subtracted(draw, "Subtract {b} from {a}.")


def asked_multiplication(draw: Draw) -> Problem:
    """Multiply 47 by 8."""
    return _multiplied(draw, "Multiply {a} by {b}.")


KIND = Kind(name="arithmetic", trained=(trained_addition, trained_subtraction, trained_multiplication),
            asked=(asked_addition, asked_subtraction, asked_multiplication))
