"""Lengths, weights and times from one unit into another."""

from workings.data.generators.base import Draw, Kind, Problem

_UNITS = (("km", "m", 1000), ("m", "cm", 100), ("kg", "g", 1000), ("liters", "milliliters", 1000),
          ("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("weeks", "days", 7),
          ("feet", "inches", 12), ("yards", "feet", 3))


def _section(factor: int, rest: int) -> str:
    return "edge_case" if rest == 0 else "trace_sensitive" if factor not in (100, 1000) else "core"


def _rests(factor: int) -> list[int]:
    """Possible remainders; never 1, which needs the singular."""
    return [0, *range(2, factor)]


def into_the_smaller(draw: Draw) -> Problem:
    """How many minutes are 3 hours and 20 minutes?"""
    large, small, factor = draw.choice(_UNITS)
    count, rest = draw.integer(2, 40), draw.choice(_rests(factor))
    product = count * factor
    return Problem(
        prompt=f"How many {small} are {count} {large} and {rest} {small}?",
        steps=(f"{count} {large}: {count}*{factor}={product} {small}.",
               f"Together: {product}+{rest}={product + rest} {small}."),
        answer=str(product + rest), key=("convert", large, count, rest), category="larger_to_smaller",
        section=_section(factor, rest), difficulty="easy" if factor in (100, 1000) else "medium")


def into_the_larger(draw: Draw) -> Problem:
    """How many whole hours are 200 minutes, and how many minutes are left over?"""
    large, small, factor = draw.choice(_UNITS)
    count, rest = draw.integer(2, 20), draw.choice(_rests(factor))
    # Both directions have the same key, so one set never holds the same amount both ways.
    total, product = count * factor + rest, count * factor
    return Problem(
        prompt=f"{total} {small} are how many whole {large}, and how many {small} are left over?",
        steps=(f"{count}*{factor}={product}, and {count + 1}*{factor}={product + factor} is more than {total}.",
               f"Left over: {total}-{product}={rest} {small}."),
        answer=f"{count} {large} and {rest} {small}", key=("convert", large, count, rest),
        category="smaller_to_larger", section=_section(factor, rest), difficulty="hard")


def asked_rate(draw: Draw) -> Problem:
    """A tap fills so much a minute; how much in some hours?"""
    rate, hours = draw.integer(2, 30), draw.integer(2, 12)
    minutes = hours * 60
    return Problem(
        prompt=f"A tap gives {rate} liters a minute. How many liters does it give in {hours} hours?",
        steps=(f"Minutes: {hours}*60={minutes}.", f"Liters: {minutes}*{rate}={minutes * rate}."),
        answer=str(minutes * rate), key=("rate", rate, hours), category="rate", section="trace_sensitive")


def asked_sum_of_lengths(draw: Draw) -> Problem:
    """A rope of meters and centimeters, cut."""
    meters, cut = draw.integer(2, 30), draw.integer(10, 99)
    total = meters * 100
    return Problem(
        prompt=f"A rope is {meters} m long. {cut} cm are cut off. How many centimeters are left?",
        steps=(f"The rope: {meters}*100={total} cm.", f"Left: {total}-{cut}={total - cut} cm."),
        answer=str(total - cut), key=("rope", meters, cut), category="larger_to_smaller",
        section="edge_case" if cut % 10 == 0 else "core", difficulty="easy")


KIND = Kind(name="unit_conversion", trained=(into_the_smaller, into_the_larger),
            asked=(asked_rate, asked_sum_of_lengths))
