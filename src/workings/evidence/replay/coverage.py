"""Chooses from the verifier's seed what to recompute, and computes the probability of detecting tampering.

Numbers are sampled without replacement, so probabilities are hypergeometric. They are over the seed, and hold for the
worst position that a forger who does not know the seed could choose.
"""

import math
from fractions import Fraction
from typing import Any

from workings.record.digest import bytes_digest

DEFAULT_TAMPERED_SHARE = 0.1
"""Smallest tampered share of the steps, and of the answers of each evaluation, that has to be detected."""
MAX_PARTS_SHOWN = 5
"""Parts of a run that a sentence lists before it only counts them."""


def choose_numbers(seed: int, purpose: str, population: int, count: int) -> list[int]:
    """``count`` different numbers below ``population``, in order; the same for the same seed on every machine."""
    # Ordered by SHA-256, because a library's random numbers may change with its version.
    ranked = sorted(range(population), key=lambda number: bytes_digest(f"{seed}/{purpose}/{number}".encode()))
    return sorted(ranked[:count])


def probability_above(allowed: int, *, population: int, wrong: int, drawn: int) -> float:
    """Probability that more than ``allowed`` of the sampled numbers are wrong (hypergeometric)."""
    ways = sum(math.comb(wrong, hits) * math.comb(population - wrong, drawn - hits)
               for hits in range(min(allowed, drawn) + 1))
    # In whole numbers up to the division: binomials of some thousand items are larger than any float.
    return float(1 - Fraction(ways, math.comb(population, drawn)))


def share_of(count: int, share: float) -> int:
    """Number of elements in a share of ``count``, rounded up, at least one."""
    return max(1, math.ceil(share * count - 1e-9))  # a tenth of 30 is 3, despite floating point


def sentences(facts: dict[str, Any]) -> list[str]:
    """What the selection detects and what it misses, in words."""
    steps = facts["steps"]
    # If no length reaches a probability, an object gives the reason.
    longer = ", ".join(f"{row['steps']:,} or more with {row['probability']:g}" for row in steps["shortest"]
                       if isinstance(row["steps"], int))
    # Named, so that a reader knows where wrong steps could still be.
    missed = ", ".join(f"{first:,} to {last:,}" for first, last in steps["not_replayed"][:MAX_PARTS_SHOWN])
    more = len(steps["not_replayed"]) - MAX_PARTS_SHOWN
    return [
        f"seed {facts['seed']}: {steps['replayed']:,} of {steps['steps']:,} steps recomputed, {steps['drawn']} of "
        f"{steps['stretches']} ranges after stored states",
        f"{steps['splice']:,} wrong steps in a row: found with probability {_probability_text(steps['found'])} "
        f"wherever they are"
        f" ({_probability_text(steps['found_on_average'])} on average){f'; {longer}' if longer else ''}",
        "steps of another run of the same recipe, wrong only where they begin: found with probability "
        f"{_probability_text(steps['joint'])}",
        f"missed: wrong steps within {missed}{f' and {more} more parts' if more > 0 else ''}" if missed
        else "missed: nothing, every step was recomputed",
        *(f"{row['unit']}: {row['asked']:,} of {row['items']:,} items asked again; invented answers to "
          f"{row['invented']:,} of them: found with probability {_probability_text(row['found'])}"
          for row in facts["answers"])]


def is_enough(facts: dict[str, Any], confidence: float) -> bool:
    """Whether each stated probability is the requested one."""
    return all(row["found"] >= confidence for row in (facts["steps"], *facts["answers"]))


def _probability_text(value: float) -> str:
    """Text of a probability that rounding makes neither certain nor impossible."""
    return f"{value:.3f}" if value in (0.0, 1.0) or 0.0005 <= value < 0.9995 else ">0.999" if value > 0.5 else "<0.001"
