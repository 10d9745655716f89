"""How much of "best" is noise: the kept checkpoint compared with the last one, item by item."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evaluation.comparison.paired import PairedDifference, paired_values, points
from workings.evaluation.statistics import Interval
from workings.record.checkpoints import BestCheckpoint
from workings.record.metrics import RIGHT
from workings.record.number_text import percent
from workings.record.values import absent


@dataclass(frozen=True, kw_only=True)
class KeptCheckpoint:
    """The best checkpoint, and the difference to the last measured one."""

    best: BestCheckpoint
    difference: PairedDifference | None
    """Scores of the best minus the last one, over the same items; None for losses, and if both are the same."""

    @classmethod
    def of(cls, best: BestCheckpoint, clusters: Sequence[str]) -> "KeptCheckpoint":
        """The comparison; ``clusters``: of the items that were answered during training, in their order."""
        kept, last = ([float(mark == RIGHT) for mark in marks] for marks in best.marks)
        comparable = kept and len(kept) == len(last) and best.step != best.last_step
        return cls(best=best, difference=paired_values(last, kept, clusters[:len(kept)]) if comparable else None)

    @property
    def sentence(self) -> str:
        """For the log and the record: which step, why, and how much is noise."""
        best = self.best
        show = percent if best.measure == "accuracy" else "{:.4f}".format
        text = (f"the checkpoint of step {best.step}: its {best.measure} {show(best.value)} is the best of "
                f"{best.measured}")
        if best.step == best.last_step:
            return f"{text}, and it is the last one"
        text += f", the last one (step {best.last_step}) has {show(best.last_value)}"
        if self.difference is None:
            return f"{text}. {_NO_INTERVAL}"
        interval = self.difference.interval
        if not isinstance(interval, Interval):
            return f"{text} (no interval: {interval})"
        noise = "" if interval.low > 0 else "; 0 is inside, so that no difference is shown"
        between = f"[{points(interval.low)}, {points(interval.high)}]"
        return (f"{text}: {points(self.difference.delta)} points {between} over {self.difference.n} items{noise}. "
                "The best of several is biased upwards")

    def facts(self) -> dict[str, Any]:
        """The manifest's facts."""
        best = self.best
        interval = (self.difference.interval if self.difference is not None else
                    "The best checkpoint is the last one" if best.step == best.last_step else _NO_INTERVAL)
        return {"step": best.step, "measure": best.measure, "value": best.value, "measured": best.measured,
                "last_step": best.last_step, "last_value": best.last_value, "sentence": self.sentence,
                "interval": {"low": interval.low, "high": interval.high} if isinstance(interval, Interval)
                else absent(interval).model_dump()}


_NO_INTERVAL = "A loss is recorded as one number, without the rows needed for an interval"
