"""Questions of the quickstart: conversions of units, and everyday facts.

    How many eggs are in 84 dozen?
    80*12=960
    4*12=48
    960+48=1008 eggs

The facts are general knowledge, which a model forgets if it is trained on units alone. Traces and items never share a
question.
"""

import json
from importlib.resources import files

from workings.data.generators.base import Generated, rank
from workings.data.traces import Trace
from workings.errors import RequestError

VERSION = 1
"""Raised whenever the same seed would give other questions or other texts."""

UNITS = {
    "How many days are {} weeks?": (7, "days"), "How many hours are {} days?": (24, "hours"),
    "How many minutes are {} hours?": (60, "minutes"), "How many eggs are in {} dozen?": (12, "eggs"),
    "How many months are {} years?": (12, "months"), "How many legs do {} spiders have?": (8, "legs"),
    "How many feet are {} yards?": (3, "feet"), "How many legs do {} dogs have?": (4, "legs"),
    "How many legs do {} ants have?": (6, "legs"), "How many fingers are on {} hands?": (5, "fingers")}
"""Question -> factor, and the unit of the answer."""
_NUMBERS = [number for number in range(11, 100) if number % 10]


def make_units(n_traces: int, n_items: int, seed: int) -> Generated:
    """Conversions of units. Raises `RequestError` for more than 810 altogether."""
    pairs = [(number, question) for number in _NUMBERS for question in UNITS]
    pairs.sort(key=lambda pair: rank(seed, "units", VERSION, *pair))
    if not 0 < n_traces + n_items <= len(pairs):
        raise RequestError(f"unit_conversion has {len(pairs)} problems, but {n_traces + n_items} were requested",
                           f"1 to {len(pairs)} traces and items together", "another --n and --items")
    traces = [_trace(number, question, seed) for number, question in pairs[:n_traces + n_items]]
    return Generated(traces=traces[n_items:], held_out=traces[:n_items])


def make_facts(n_items: int, seed: int) -> Generated:
    """All everyday facts; ``n_items`` of them are held out."""
    kinds = json.loads(files("workings.data.generators").joinpath("facts.json").read_text(encoding="utf-8"))
    facts = [(kind["question"], kind["sentence"], about, answer)
             for kind in kinds for about, answer in kind["facts"].items()]
    facts.sort(key=lambda fact: rank(seed, "facts", VERSION, *fact))
    traces = [Trace(id=f"fact-{number}", prompt=question.format(about), answer=answer, section="facts",
                    category="everyday", difficulty="easy", steps=(sentence.format(about, answer),),
                    licence="CC0-1.0", source=f"workings:facts version {VERSION} seed {seed}")
              for number, (question, sentence, about, answer) in enumerate(facts)]
    return Generated(traces=traces[n_items:], held_out=traces[:n_items])


def _trace(number: int, question: str, seed: int) -> Trace:
    factor, unit = UNITS[question]
    tens, ones = number // 10 * 10, number % 10
    return Trace(id=f"units-{list(UNITS).index(question)}-{number}", prompt=question.format(number),
                 steps=(f"{tens}*{factor}={tens * factor}", f"{ones}*{factor}={ones * factor}",
                        f"{tens * factor}+{ones * factor}={number * factor} {unit}"),
                 answer=str(number * factor), section="units", category=unit,
                 difficulty="medium" if factor > 9 else "easy", licence="CC0-1.0",
                 source=f"workings:units version {VERSION} seed {seed}")
