"""Additions of two 2-digit numbers with the carry written out.

    What is 47+25?
    7+5=12, write 2 carry 1
    4+2+1=7
    72

There are 8,100 such problems. They are split by unordered pairs: if 47+25 is held out, a model does not learn from
25+47 either. A held-out pair gives one problem, a pair to learn from may give two.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from workings.data.generators.base import Generated, rank
from workings.data.traces import Trace
from workings.errors import RequestError

VERSION = 1
"""Raised whenever the same seed would give other problems or other texts."""

TIMES_COLUMN_SHOWN = 2
"""How often each column is shown before problems come that show no new one."""

_OPERANDS = range(10, 100)
_CATEGORY = {(0, 0): "no_carry", (1, 0): "carry_from_ones", (0, 1): "carry_from_tens", (1, 1): "two_carries"}
_DIFFICULTY = ("easy", "medium", "hard")


def make(n_train: int, n_items: int, seed: int) -> Generated:
    """Additions, disjoint by unordered pair. Traces that show new columns come first.

    With 500 items there are about 7,100 traces to choose from. Raises `RequestError` if there are fewer problems than
    requested.
    """
    def ranked(pairs: Iterable[tuple[int, int]], purpose: str) -> list[tuple[int, int]]:
        return sorted(pairs, key=lambda pair: rank(seed, "addition", VERSION, purpose, *pair))

    pairs = ranked(((a, b) for a in _OPERANDS for b in _OPERANDS if a <= b), "pair")
    held_out, to_learn = pairs[:n_items], pairs[n_items:]
    problems = _new_columns_first(ranked({*to_learn, *((b, a) for a, b in to_learn)}, "order"))
    if n_train < 1 or n_items < 1 or len(held_out) < n_items or len(problems) < n_train:
        raise RequestError(
            f"{n_train} traces and {n_items} items of addition cannot be made",
            f"at least one of each, at most {len(pairs)} items, and at most {len(problems)} traces next to {n_items} "
            "items: there are 8,100 additions of two 2-digit numbers", "ask for fewer")
    # One order of each pair, by a bit of its hash: half of the items begin with the larger number.
    asked = [pair if rank(seed, "addition", VERSION, "turn", *pair)[0] % 2 else pair[::-1] for pair in held_out]
    return Generated(traces=[_trace(a, b, seed) for a, b in problems[:n_train]],
                     held_out=[_trace(a, b, seed) for a, b in asked])


def _new_columns_first(problems: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same problems; first those with a column that fewer than `TIMES_COLUMN_SHOWN` earlier ones have shown.

    There are 100 columns of ones and 162 of tens (with and without a carry). About 370 problems in this order show each
    column twice; in a random order it takes thousands. So a few hundred traces hold everything that can be learned.
    """
    shown: Counter[tuple[int, ...]] = Counter()
    first, rest = [], []
    for a, b in problems:
        carry, _ = carries(a, b)
        columns = ((a % 10, b % 10), (a // 10, b // 10, carry))
        if min(shown[column] for column in columns) < TIMES_COLUMN_SHOWN:
            first.append((a, b))
            shown.update(columns)
        else:
            rest.append((a, b))
    return first + rest


def worked_steps(a: int, b: int) -> tuple[str, str]:
    """The two columns, ones first, with the carry written out; see the module's example."""
    ones = a % 10 + b % 10
    carry = ones // 10
    tens = a // 10 + b // 10 + carry
    return (f"{a % 10}+{b % 10}={ones}, write {ones % 10} carry {carry}", f"{a // 10}+{b // 10}+{carry}={tens}")


def carries(a: int, b: int) -> tuple[int, int]:
    """1 where the ones carry, and 1 where the tens carry into a third digit."""
    from_ones = int(a % 10 + b % 10 >= 10)
    return from_ones, int(a // 10 + b // 10 + from_ones >= 10)


def labels(a: int, b: int) -> dict[str, Any]:
    """Section, category and difficulty of a problem.

    `trace_sensitive`: both columns carry. `edge_case`: a zero among the ones, or a third digit without a carry from
    the ones. `core`: the rest. Difficulty counts the carries.
    """
    from_ones, from_tens = carries(a, b)
    if from_ones and from_tens:
        section = "trace_sensitive"
    elif a % 10 == 0 or b % 10 == 0 or from_tens:
        section = "edge_case"
    else:
        section = "core"
    return {"section": section, "category": _CATEGORY[from_ones, from_tens],
            "difficulty": _DIFFICULTY[from_ones + from_tens]}


def _trace(a: int, b: int, seed: int) -> Trace:
    return Trace(id=f"add-{a}-{b}", prompt=f"What is {a}+{b}?", steps=worked_steps(a, b), answer=str(a + b),
                 source=f"workings:addition version {VERSION} seed {seed}", licence="CC0-1.0", **labels(a, b))
