"""Compares replayed numbers with recorded ones, and says the result in words."""

import math
from typing import Any

from workings.record.values import is_absent

MEASURES = ("loss", "grad_norm")
MAX_DIFFERENCE = 1e9
"""Stands for larger relative differences, and for those of values that are not finite: JSON has no infinity."""

Facts = dict[str, Any]
"""The result of a replay, or a part of it, as JSON. Each of its `lines` has `step`, `same_batch`, the `MEASURES` under
`recorded` and `replayed`, and under `drawn` how many completions were `asked` for and how many came out the `same`."""


def relative_difference(a: Any, b: Any) -> float:
    """Relative difference of two numbers, from 0 (equal to the bit) to `MAX_DIFFERENCE`."""
    if not isinstance(a, int | float) or not isinstance(b, int | float) or not math.isfinite(a) or not math.isfinite(b):
        return MAX_DIFFERENCE
    return 0.0 if a == b else min(MAX_DIFFERENCE, abs(a - b) / max(abs(a), abs(b)))


def line_differences(line: Facts) -> dict[str, float]:
    """Relative difference of each measure of one step, and the share of completions that differ."""
    differences = {name: relative_difference(line["recorded"].get(name), line["replayed"].get(name))
                   for name in MEASURES}
    drawn = line.get("drawn")
    return differences if drawn is None else differences | {"completions": 1 - drawn["same"] / max(1, drawn["asked"])}


def is_outside(differences: dict[str, float], tolerance: Facts) -> bool:
    """Whether a step differs from the recorded one by more than the tolerance."""
    # The tolerance says how many completions have to be the same, not how many may differ.
    if differences.get("completions", 0.0) > 1 - tolerance["completions"]:
        return True
    return any(differences.get(name, 0.0) > tolerance[name] for name in MEASURES)


def wrong_steps(facts: Facts) -> list[str]:
    """Problems of the replayed steps and of the weights after them, in words; empty if all are within the tolerance."""
    tolerance, lines, weights = facts["tolerance"], facts["lines"], facts["weights"]
    failures = [f"step {line['step']}: another batch than the recorded one" for line in lines if not line["same_batch"]]
    for line in lines:
        differences = line_differences(line)
        measures = [f"{name} {_text(line['replayed'].get(name))}, recorded {_text(line['recorded'].get(name))} "
                    f"(relative difference {differences[name]:.2g}, allowed {tolerance[name]:.2g})"
                    for name in MEASURES if differences[name] > tolerance[name]]
        if measures:
            failures.append(f"step {line['step']}: {', '.join(measures)}")
        elif is_outside(differences, tolerance):
            drawn = line["drawn"]
            failures.append(f"step {line['step']}: {drawn['same']} of {drawn['asked']} completions were drawn as "
                            "recorded")
    if not is_absent(weights) and weights["largest_difference"] > tolerance["weights"]:
        failures.append(f"weights after step {weights['step']}: {weights['tensor']} differs by "
                        f"{weights['largest_difference']:.2g}, allowed {tolerance['weights']:.2g}")
    return failures


def replay_sentence(facts: Facts) -> str:
    """One or two sentences: the replayed part and the result."""
    failures, lines = wrong_steps(facts), facts["lines"]
    ranges = facts["coverage"]["steps"]["ranges"] if "coverage" in facts else 1
    span = f"Steps {lines[0]['step']} to {lines[-1]['step']}"
    if ranges > 1:
        span = f"{len(lines)} steps in {ranges} stretches"
    differing = ", ".join(facts["conditions"]["differing"])
    if facts["mode"] == "bitwise":
        how = "bitwise, because processor, threads, versions and code are the recorded ones"
    elif differing:
        how = f"within the tolerance, because these differ from the recorded run: {differing}"
    else:
        how = "within the tolerance, because accelerators do not promise the order of sums"
    largest = max(line_differences(line)["loss"] for line in lines)
    equal = not any(value for line in lines for value in line_differences(line).values())
    agreement = "equal to the bit" if equal else f"largest relative difference in loss {largest:.2g}"
    verdict = "failed" if failures else "passed"
    text = f"{span} replayed from {facts['start']}, judged {how}: {verdict} ({agreement})."
    return f"{text} {'; '.join(failures[:5])}." if failures else text


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, int | float) else "none"
