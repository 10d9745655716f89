"""How much better is the best checkpoint than the last one, and how much of that is noise?"""

from collections.abc import Sequence
from typing import Any

from workings.evaluation.comparison.paired import PairedDifference, paired_values, points
from workings.evaluation.statistics import Interval
from workings.record.checkpoints import BestCheckpoint
from workings.record.metrics import RIGHT
from workings.record.number_text import percent
from workings.record.values import absent

_NO_INTERVAL = "A loss is recorded as one number, without the rows needed for an interval"


def kept_checkpoint(best: BestCheckpoint, clusters: Sequence[str]) -> dict[str, Any]:
    """The manifest's facts about the best checkpoint, with a `sentence` for humans.

    `interval` is the 95 % interval of its accuracy minus that of the last checkpoint; absent for losses, and if both
    are the same checkpoint. ``clusters`` are those of the items that were answered during training, in their order.
    """
    best_scores, last_scores = ([float(mark == RIGHT) for mark in marks] for marks in best.marks)
    best_text = (f"the checkpoint of step {best.step}: its {best.measure} {_value_text(best, best.value)} is the best "
                 f"of {best.measured}")
    last_text = f", the last one (step {best.last_step}) has {_value_text(best, best.last_value)}"
    interval: Interval | str
    if best.step == best.last_step:
        interval, rest = "The best checkpoint is the last one", ", and it is the last one"
    elif not best_scores or len(best_scores) != len(last_scores):
        interval, rest = _NO_INTERVAL, f"{last_text}. {_NO_INTERVAL}"
    else:
        difference = paired_values(last_scores, best_scores, clusters[:len(best_scores)])
        interval, rest = difference.interval, last_text + _difference_text(difference)
    return {"step": best.step, "measure": best.measure, "value": best.value, "measured": best.measured,
            "last_step": best.last_step, "last_value": best.last_value, "sentence": best_text + rest,
            "interval": {"low": interval.low, "high": interval.high} if isinstance(interval, Interval)
            else absent(interval).model_dump()}


def _value_text(best: BestCheckpoint, value: float) -> str:
    return percent(value) if best.measure == "accuracy" else f"{value:.4f}"


def _difference_text(difference: PairedDifference) -> str:
    interval = difference.interval
    if isinstance(interval, str):
        return f" (no interval: {interval})"
    inside = "" if interval.low > 0 else "; 0 is inside, so that no difference is shown"
    return (f": {points(difference.delta)} points [{points(interval.low)}, {points(interval.high)}] over "
            f"{difference.n} items{inside}. The best of several is biased upwards")
