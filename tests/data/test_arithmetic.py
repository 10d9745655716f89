"""Equations in texts: found where they are plain, computed exactly, left alone where words change them."""

import random
from fractions import Fraction

import pytest

from workings.data.checking.arithmetic import equations, wrong_equations

HOLD = ["7+5=12, write 2 carry 1", "3^2+1 = 10", "5/25*100 = 20%", "5/25=20%", "20/3 = 6.67", "20/3=6.66", "20/3 ≈ 7",
        "$3.50 * 2 = $7", "2x3=6", "2 x 3 = 6", "5 - 10 = -5", "10% * 50 = 5", "-3+5=2", "2.5*4=10.00", "(2+3)*4=20",
        "1,000 × 2 = 2,000.", "so 25 / 1/3 = 75", "2³=8", "5²+1=26", "0.5*4=2", ".5+.5=1", "1−3=−2", "9÷3=3", "2**3=8",
        "<<48/2=24>>", "2(3)=6 is 2*(3)=6", "9/27*100%=33.333%", "1/3=33.3%", "1/3*100 = 33.3%", "2/3 ≈ 67%"]
WRONG = {"2+2=5": ["2+2=5"], "1/0=3": ["1/0=3"], "2+3=5*2=10": ["2+3=5*2"], "20/3=6.6": [], "20/3=6.7": [],
         "20/3=6.5": ["20/3=6.5"], "7/2=3": ["7/2=3"], "$32 - $20 = $300 left": ["32-20=300"],
         "2*8 = 24 hours": ["2*8=24"], "10*1,248 = 11,480": ["10*1,248=11,480"], "5/25=21%": ["5/25=21%"],
         "1/3=33.5%": ["1/3=33.5%"], "1/3 ≈ 35%": ["1/3=35%"]}
SILENT = ["10 apples - 5 = 5 apples", "half of 10 + 2 = 7", "√16+2=6", "x=3", "3x = 9", "9x-21=339", "12:30 + 5 = 17",
          "2 and 1/2 = 2.5", "12 x 1 and 1/4 = 15", "4 / 3 = 1 and 1/3", "5 - 1 - 1/2 = 3 1/2", "100/5 = 5A/5",
          "24/3 = 8/y", "3*30 = 30 + M trees", "$1 / 2 = 50 cents", "0900-0130 = 0730", "300 seeds * 1/3 = 100 seeds",
          "5=5", "", "=",
          "X*2 - $40 = $250", "2 ! + 3 = 4", "1 2 + 3 = 4", "$3 $4 + 1 = 5", "2^0.5+1 = 2", "2^100000000 = 1",
          "(((1+1=2"]


@pytest.mark.parametrize("text", HOLD)
def test_right_equations_hold(text: str) -> None:
    found = equations(text)
    assert found
    assert all(equation.holds for equation in found)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_equations_are_named(text: str) -> None:
    assert equations(text)
    assert wrong_equations(text) == WRONG[text]


@pytest.mark.parametrize("text", SILENT)
def test_what_is_not_plainly_an_equation_is_left_alone(text: str) -> None:
    assert wrong_equations(text) == []


def test_against_python() -> None:
    draw = random.Random(5)
    for _ in range(500):
        numbers = [str(draw.randint(1, 99)) for _ in range(draw.randint(2, 5))]
        left = numbers[0] + "".join(draw.choice("+-*") + number for number in numbers[1:])
        value = eval(left)
        assert [equation.holds for equation in equations(f"{left}={value}")] == [True], left
        assert [equation.holds for equation in equations(f"{left}={value + 1}")] == [False], left


def test_rounding_is_to_the_digits_shown() -> None:
    for numerator in range(1, 60):
        exact = Fraction(numerator, 7)
        shown = f"{float(exact):.3f}"
        assert wrong_equations(f"{numerator}/7={shown}") == []
        assert wrong_equations(f"{numerator}/7={float(exact) + 0.01:.3f}")


def test_long_texts_take_time_in_proportion() -> None:
    assert equations("1+" * 5000 + "1=5001") == []  # longer than any sum a person writes
    assert len(equations("1+1=2. " * 5000)) == 5000
