"""Comparisons, with zeros, negative numbers, decimals of different length, and equal sides."""

from workings.data.generators.base import Draw, Kind, Problem


def _sign(a: int, b: int) -> str:
    return ">" if a > b else "<" if a < b else "="


def two_products(draw: Draw) -> Problem:
    """Which is greater, 7*8 or 6*9, or are they equal?"""
    a, b, c, d = (draw.integer(0, 12) for _ in range(4))
    left, right = a * b, c * d
    answer = f"{a}*{b}" if left > right else f"{c}*{d}" if right > left else "equal"
    return Problem(prompt=f"Which is greater, {a}*{b} or {c}*{d}, or are they equal?",
                   steps=(f"{a}*{b}={left}", f"{c}*{d}={right}", f"{left} {_sign(left, right)} {right}"),
                   # Sorted, because both orders ask the same problem, which may stand on one side only.
                   answer=answer, key=("products", *sorted((tuple(sorted((a, b))), tuple(sorted((c, d)))))),
                   category="expressions", section="edge_case" if 0 in (a, b, c, d) or left == right else "core",
                   difficulty="easy")


def decimals(draw: Draw) -> Problem:
    """Which is greater, 0.9 or 0.11?"""
    # One digit against two: whoever reads what stands behind the point as a whole number is wrong here.
    integer, a, b = draw.integer(0, 20), draw.integer(1, 9), draw.integer(10, 99)
    first, second = f"{integer}.{a}", f"{integer}.{b}"
    tenths = a * 10
    answer = first if tenths > b else second if b > tenths else "equal"
    # Turned at random, or the first number would always be the one with a single digit.
    shown = [first, second] if draw.integer(0, 1) else [second, first]
    return Problem(prompt=f"Which is greater, {shown[0]} or {shown[1]}, or are they equal?",
                   steps=(f"With as many digits: {first} is {integer}.{tenths}.",
                          f"Behind the point: {tenths} {_sign(tenths, b)} {b}, so "
                          + ("they are equal." if tenths == b else f"{answer} is greater.")),
                   answer=answer, key=("decimals", integer, a, b), category="decimals", section="edge_case")


def negatives(draw: Draw) -> Problem:
    """Which is greater, -7 or -12?"""
    a = draw.integer(-90, 30)
    b = draw.choice([number for number in range(-90, 31) if number != a])
    gap = a - b
    greater = max(a, b)
    return Problem(prompt=f"Which is greater, {a} or {b}?",
                   steps=(f"({a})-({b})={gap}", f"{gap} {_sign(gap, 0)} 0, so {greater} is greater."),
                   answer=str(greater), key=("negatives", *sorted((a, b))), category="integers", section="edge_case")


def asked_difference(draw: Draw) -> Problem:
    """By how much is one sum larger than another?"""
    a, b, c, d = (draw.integer(0, 60) for _ in range(4))
    (a, b), (c, d) = sorted(((a, b), (c, d)), key=sum, reverse=True)
    left, right = a + b, c + d
    return Problem(prompt=f"By how much is {a}+{b} more than {c}+{d}?",
                   steps=(f"{a}+{b}={left}", f"{c}+{d}={right}", f"{left}-{right}={left - right}"),
                   answer=str(left - right), key=("sums", a, b, c, d), category="expressions",
                   section="edge_case" if left == right or 0 in (a, b, c, d) else "trace_sensitive")


def asked_middle(draw: Draw) -> Problem:
    """Which of three numbers is in the middle?"""
    low = draw.integer(-50, 90)
    first, second = draw.integer(1, 9), draw.integer(1, 9)
    ordered = [low, low + first, low + first + second]
    turn = draw.integer(0, 2)
    # Over the three rotations the middle number stands once at each place, so the place tells nothing.
    shown = ordered[turn:] + ordered[:turn]
    return Problem(prompt=f"Which of {shown[0]}, {shown[1]} and {shown[2]} is in the middle?",
                   steps=(f"In order: {ordered[0]} < {ordered[1]} < {ordered[2]}.",), answer=str(ordered[1]),
                   key=("middle", *ordered), category="integers", section="edge_case" if low < 0 else "core",
                   difficulty="easy")


def asked_closer(draw: Draw) -> Problem:
    """Which is closer to 0, -7 or 5?"""
    a, b = -draw.integer(1, 99), draw.integer(0, 99)
    low, high = (a, b) if draw.integer(0, 1) else (b, a)
    answer = "both are equally close" if -a == b else str(a if -a < b else b)
    return Problem(prompt=f"Which is closer to 0, {low} or {high}?",
                   steps=(f"0-({a})={-a}", f"{b}-0={b}", f"{-a} {_sign(-a, b)} {b}"), answer=answer,
                   key=("closer", a, b), category="integers", section="edge_case")


KIND = Kind(name="comparison", trained=(two_products, decimals, negatives),
            asked=(asked_difference, asked_middle, asked_closer))
