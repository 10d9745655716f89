"""Numbers as written, read exactly."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.answers.numbers import WrittenNumber, equal_numbers, parse_number


def number_of(text: str) -> WrittenNumber:
    number = parse_number(text)
    assert number is not None
    return number


@pytest.mark.parametrize(("text", "value"), [
    ("42", 42), ("-42", -42), ("+42", 42), ("\u221242", -42), ("1,234", 1234), ("1,234,567.50", Fraction(2469135, 2)),
    ("$1,234.50", Fraction(2469, 2)), ("-$5", -5), ("$-5", -5), ("5$", 5), ("\\$18", 18), ("$18$", 18), ("€ 7", 7),
    ("3/4", Fraction(3, 4)), ("1 1/2", Fraction(3, 2)), ("1½", Fraction(3, 2)), ("½", Fraction(1, 2)),
    ("\\frac{3}{4}", Fraction(3, 4)), ("1\\frac{1}{2}", Fraction(3, 2)), ("-\\dfrac{1}{2}", Fraction(-1, 2)),
    ("\\frac12", Fraction(1, 2)), (".5", Fraction(1, 2)), ("0.10", Fraction(1, 10)), ("1e3", 1000),
    ("2.5 x 10^3", 2500), ("3 million", 3_000_000), ("42.", 42), ("**42**", 42), ("x = 5", 5), ("47+25=72", 72),
    ("12,345 dollars", 12345), ("90^\\circ", 90), ("10{,}000", 10000), ("\uff15", 5), ("007", 7),
])
def test_values(text: str, value: Fraction | int) -> None:
    assert number_of(text).value == value


@pytest.mark.parametrize("text", [
    "", "Paris", "10**10**10", "2^10", "1,23", "1,2345", "47 or 48", "5 and 6", "3 + 4", "1/0", "1 1/0", "nan", "inf",
    "1e999999", "1e500", "9" * 301, "12:30", "2024-01-05", "--5", "(5", "one", "5 6", "1.2.3", "47 48",
])
def test_what_is_no_number(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(("given_text", "expected", "equal"), [
    ("50%", "50", True), ("50%", "0.5", True), ("50", "50%", True), ("0.5", "50%", True), ("50%", "5", False),
    ("5 km", "5", True), ("5 km", "5 kilometers", True), ("5 km", "5 miles", False), ("$5", "5 dollars", True),
    ("2千", "2", False), ("2千", "2000", True), ("3千万", "30000000", True),
    ("$5", "€5", False), ("5 apples", "5 apple", True), ("0.3", "3/10", True), ("1/3", "0.3333", False),
])
def test_equality(given_text: str, expected: str, equal: bool) -> None:
    assert equal_numbers(number_of(given_text), number_of(expected)) is equal


def test_tolerance_is_absolute_and_exact() -> None:
    assert equal_numbers(number_of("0.333"), WrittenNumber(Fraction(1, 3)), 0.001)
    assert not equal_numbers(number_of("0.333"), WrittenNumber(Fraction(1, 3)), 0.0001)
    # floats would say 0.1 < 0.2 - 0.1 is rounding's choice
    assert equal_numbers(number_of("0.1"), number_of("0.2"), 0.1)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fractions(max_denominator=10_000), st.booleans())
def test_fractions_survive(value: Fraction, commas: bool) -> None:
    top = f"{value.numerator:,}" if commas else str(value.numerator)
    assert number_of(f"{top}/{value.denominator}").value == value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=400))
def test_any_text_is_answered(text: str) -> None:
    number = parse_number(text)
    assert number is None or isinstance(number.value, Fraction)
