"""How much of "best" is noise: the kept checkpoint compared with the last one, item by item."""

from collections.abc import Sequence
from typing import Any

from workings.evaluation.comparison.paired import paired_values, points
from workings.evaluation.statistics import Interval
from workings.record.checkpoints import BestCheckpoint
from workings.record.metrics import RIGHT
from workings.record.number_text import percent
from workings.record.values import absent

_NO_INTERVAL = "A loss is recorded as one number, without the rows needed for an interval"


def kept_checkpoint(best: BestCheckpoint, clusters: Sequence[str]) -> dict[str, Any]:
    """The manifest's facts about the best checkpoint; `sentence` says which step, why, and how much is noise.

    `interval` is that of its scores minus those of the last one, over the same items; absent for losses, and if both
    are the same checkpoint. ``clusters``: of the items that were answered during training, in their order.
    """
    kept, last = ([float(mark == RIGHT) for mark in marks] for marks in best.marks)
    show = percent if best.measure == "accuracy" else "{:.4f}".format
    text = f"the checkpoint of step {best.step}: its {best.measure} {show(best.value)} is the best of {best.measured}"
    interval: Interval | str = _NO_INTERVAL
    if best.step == best.last_step:
        text, interval = f"{text}, and it is the last one", "The best checkpoint is the last one"
    else:
        text += f", the last one (step {best.last_step}) has {show(best.last_value)}"
        if not kept or len(kept) != len(last):
            text += f". {_NO_INTERVAL}"
        else:
            difference = paired_values(last, kept, clusters[:len(kept)])
            interval = difference.interval
            text += f" (no interval: {interval})" if isinstance(interval, str) else (
                f": {points(difference.delta)} points [{points(interval.low)}, {points(interval.high)}] over "
                f"{difference.n} items{'' if interval.low > 0 else '; 0 is inside, so that no difference is shown'}. "
                "The best of several is biased upwards")
    return {"step": best.step, "measure": best.measure, "value": best.value, "measured": best.measured,
            "last_step": best.last_step, "last_value": best.last_value, "sentence": text,
            "interval": {"low": interval.low, "high": interval.high} if isinstance(interval, Interval)
            else absent(interval).model_dump()}
