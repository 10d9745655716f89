"""Decide whether B passes: yes if a larger drop from A than allowed is ruled out, no if it is certain."""

from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evaluation.comparison.no_verdict import measured_side, reasons_against
from workings.evaluation.comparison.paired import PairedDifference, paired_values
from workings.evaluation.comparison.several_runs import check_comparable
from workings.evaluation.statistics import Interval, bounds
from workings.evaluation.unit import find_pair


def gate(a: Path, b: Path, *, max_drop: float) -> dict[str, Any]:
    """Compare B's evaluation with A's on the same items: the answer of ``compare --max-drop --json``.

    Its ``verdict`` is `pass`, `fail` or `inconclusive`. ``max_drop`` is the largest allowed loss of accuracy, as a
    share (0.02: two points). Raises `RequestError` if the two are not comparable.
    """
    # 2 is probably meant as 2 %; with it every run would pass.
    if not 0 <= max_drop < 1:
        raise RequestError(f"--max-drop {max_drop:g} is not a share of the accuracy",
                           "a share from 0 to below 1: 0.02 for two points", "--max-drop 0.02")
    first, second = find_pair(a, b)
    notes = check_comparable([first, second])
    results = first.results()
    before = measured_side(first.name, first.answer_counts, results)
    after = measured_side(second.name, second.answer_counts, second.results_of([result.id for result in results]))
    paired = paired_values(before.scores, after.scores, before.clusters)
    verdict = _decide(paired.interval, max_drop)
    reasons: list[str] = []
    if verdict == "pass":
        generous = paired_values(before.generous, after.scores, before.clusters)
        reasons = reasons_against(after, before, holds=_decide(generous.interval, max_drop) == verdict)
    elif verdict == "fail":
        generous = paired_values(before.scores, after.generous, before.clusters)
        reasons = reasons_against(before, after, holds=_decide(generous.interval, max_drop) == verdict)
    # Inconclusive is a third answer: with few items neither is shown, and a run must not pass by that.
    verdict = "inconclusive" if reasons else verdict
    sentence = " ".join(filter(None, [_sentence(paired, verdict, max_drop, first.name, second.name),
                                      first.warning, second.warning, *reasons]))
    return {"verdict": verdict, "max_drop": max_drop, "change": paired.delta, "items": paired.n, "a": first.name,
            "b": second.name, "sentence": sentence, "notes": notes, **bounds(paired.interval, "change_ci"),
            **({"method": paired.interval.method} if isinstance(paired.interval, Interval) else {})}


def _sentence(paired: PairedDifference, verdict: str, max_drop: float, a: str, b: str) -> str:
    interval = (f"95 % interval {paired.interval.low:+.4f} to {paired.interval.high:+.4f}"
                if isinstance(paired.interval, Interval) else f"no interval: {paired.interval}")
    reason = {"pass": f"a drop of more than {max_drop:g} is ruled out", "fail": f"it dropped by more than {max_drop:g}",
              "inconclusive": f"a drop of more than {max_drop:g} is neither shown nor ruled out"}[verdict]
    return (f"{verdict}: accuracy of {b} changed by {paired.delta:+.4f} against {a} on {paired.n} items ({interval}); "
            f"{reason}.")


def _decide(interval: Interval | str, max_drop: float) -> str:
    if isinstance(interval, str):
        return "inconclusive"
    # The whole interval is above the limit, which takes the place of zero: a non-inferiority test at 2.5 %.
    if interval.low > -max_drop:
        return "pass"
    return "fail" if interval.high < -max_drop else "inconclusive"
