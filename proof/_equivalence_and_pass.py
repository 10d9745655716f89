"""Parts of `proof.statistics`: false claims and power of equivalence, and coverage of intervals of pass@k."""

from math import comb
from typing import Any

import numpy as np
from scipy import special, stats

from workings.evaluation.statistics import TOST_CONFIDENCE, score_statistic, t_mean, wilson_effective, z_value

MARGINS = (0.02, 0.05)
RATES = {"even": (0.5, 0.5), "middling": (2.0, 2.0), "mostly right": (5.0, 1.0), "mostly wrong": (0.3, 3.0),
         "seldom right": (0.1, 10.0), "nearly all right": (20.0, 0.5)}
"""How the chance of a right sample spreads over items: the two numbers of a beta distribution."""
SAMPLES = 8
RESAMPLES = 499
TRIALS = 2_000


def equivalence_claims(n: int, discordant: float, margin: float, difference: float) -> float:
    """Share of comparisons in which equivalence is claimed, exactly: a sum over all counts.

    Args:
        n: items.
        discordant: share of items on which the two differ.
        margin: the one that is asked for.
        difference: the true one; at the margin a claim is false.
    """
    right, wrong = (discordant + difference) / 2, (discordant - difference) / 2
    claimed = 0.0
    for m in range(n + 1):
        weight = float(stats.binom.pmf(m, n, discordant))
        # Beyond this nothing is left to add, and large counts would take hours.
        if weight < 1e-9:
            continue
        counts = np.arange(m + 1)
        chance = stats.binom.pmf(counts, m, right / (right + wrong)) * weight
        likely = counts[chance > 1e-10]
        claimed += float(sum(chance[k] for k in likely if _is_shown(int(k), int(m - k), n, margin)))
    return claimed


def _is_shown(newly_right: int, newly_wrong: int, n: int, margin: float) -> bool:
    """`Equivalence.shown` of Tango's interval, by its statistic at both margins, in a hundredth of the time."""
    above, below = (score_statistic(newly_right, newly_wrong, n, end) for end in (-margin, margin))
    return min(above, -below) > z_value(TOST_CONFIDENCE)


def pass_coverage(rates: tuple[float, float], items: int, k: int, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of the true pass@k by the chosen interval, by Student's t and by the percentile bootstrap of items."""
    estimate = np.array([1 - comb(SAMPLES - right, k) / comb(SAMPLES, k) for right in range(SAMPLES + 1)])
    truth = 1 - float(np.exp(special.betaln(rates[0], rates[1] + k) - special.betaln(*rates)))
    covered = dict.fromkeys(("chosen", "t", "bootstrap"), 0)
    resampled = rng.multinomial(items, np.full(items, 1 / items), RESAMPLES) / items
    for _ in range(TRIALS):
        values = estimate[rng.binomial(SAMPLES, rng.beta(*rates, items))]
        chosen, plain = wilson_effective(values), t_mean(values).interval
        low, high = np.quantile(resampled @ values, [0.025, 0.975])
        covered["chosen"] += chosen.low <= truth <= chosen.high
        covered["t"] += plain.low <= truth <= plain.high
        covered["bootstrap"] += bool(low <= truth <= high)
    return {name: count / TRIALS for name, count in covered.items()} | {"pass_at_k": truth}


def measure(tell: Any) -> dict[str, Any]:
    """All of it, as percent with two digits."""
    claims: dict[str, dict[str, float]] = {}
    for n in (100, 500, 1319):
        for discordant in (0.1, 0.3):
            for margin in MARGINS:
                tell(f"equivalence within {margin:.0%}, {n} items, {discordant:.0%} discordant")
                claims[f"{n} items, {discordant:.0%} discordant, margin {100 * margin:g} points"] = {
                    "false": round(100 * equivalence_claims(n, discordant, margin, margin), 2),
                    "true": round(100 * equivalence_claims(n, discordant, margin, 0.0), 2)}
    rng = np.random.default_rng(20261124)
    rates = {}
    for name, spread in RATES.items():
        for items in (50, 100, 500):
            tell(f"pass@k, {name}, {items} items")
            for k in (1, 2, 4, 8):
                rates[f"{name}, {items} items, k = {k}"] = {
                    key: round(100 * share, 2) for key, share in pass_coverage(spread, items, k, rng).items()}
    # Where nearly all items are alike no method knows better than the number of items; said apart.
    inner = [found for found in rates.values() if 2 <= found["pass_at_k"] <= 98]
    return {"equivalence": claims, "pass_at_k": rates, "range": {
        "equivalence_false": _range([found["false"] for found in claims.values()]),
        **{f"pass_at_k_{name}": _range([found[name] for found in inner]) for name in ("chosen", "t", "bootstrap")},
        **{f"pass_at_k_at_the_ends_{name}": _range([found[name] for found in rates.values() if found not in inner])
           for name in ("chosen", "t", "bootstrap")}}}


def _range(values: list[float]) -> dict[str, float]:
    return {"lowest": min(values), "highest": max(values)}
