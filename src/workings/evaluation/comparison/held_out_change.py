"""Change of the held-out score over a run with rewards, in one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from workings.evaluation.comparison.paired import PairedDifference, paired_values, points
from workings.evaluation.statistics.intervals import Interval
from workings.record.metrics import RIGHT

BEFORE = "held_out_before"
"""Kind of the event that holds the score before the first step."""
SHARE = 10
"""Start and end rewards are means over this part (1/10) of the rollouts."""
_MARKS = "held_out_right"


@dataclass(frozen=True, kw_only=True)
class HeldOutChange:
    """How reward and held-out score changed over a run."""

    reward_before: float
    reward_after: float
    """Means over the first and the last tenth of the rollouts, at least one."""
    step_before: int
    """0: before the first step."""
    step_after: int
    difference: PairedDifference
    """Held-out scores after minus before, over the same items."""

    @property
    def sentence(self) -> str:
        """For the log: `the reward rose from 0.42 to 0.61, the held-out score did not: +1.6 points [-6.1, +9.3] …`."""
        score, before, after = self.difference.verdict, f"{self.reward_before:.2f}", f"{self.reward_after:.2f}"
        # By the printed digits: "0.00" did not rise to "0.00".
        reward = (f"stayed at {after}" if before == after else
                  f"{'rose' if self.reward_after > self.reward_before else 'fell'} from {before} to {after}")
        if reward.startswith("rose"):
            score_text = {"better": "and the held-out score rose too", "worse": "the held-out score fell",
                          "inconclusive": "these items show no change of the held-out score"}[score]
        else:
            score_text = {"better": "the held-out score rose", "worse": "the held-out score fell",
                          "inconclusive": "these items show no change of the held-out score"}[score]
        difference, text = self.difference, f"{points(self.difference.delta)} points"
        if isinstance(difference.interval, Interval):
            text += f" [{points(difference.interval.low)}, {points(difference.interval.high)}]"
        else:
            text += f" (no interval: {difference.interval})"
        return (f"the reward {reward}, {score_text}: {text} of "
                f"{difference.n} items, step {self.step_after} compared with step {self.step_before}")


def held_out_change(clusters: Sequence[str], lines: Sequence[Mapping[str, Any]],
                    events: Sequence[Mapping[str, Any]]) -> HeldOutChange | None:
    """The change over a run, from its record; None without rewards, or with only one evaluation.

    Args:
        clusters: of the held-out items, in order; at least as many as were evaluated.
        lines: metrics lines of the run.
        events: of the run; they hold the evaluation before the first step.
    """
    evaluations = [(int(line["step"]), str(line[_MARKS])) for line in lines if _MARKS in line]
    # An attempt that died before its first checkpoint evaluated the same weights: use the newest event.
    before = next((str(event[_MARKS]) for event in reversed(events) if event.get("kind") == BEFORE), None)
    if before is not None:
        evaluations.insert(0, (0, before))
    rewards = [float(line["reward"]) for line in lines if "reward" in line]
    if len(evaluations) < 2 or not rewards:
        return None
    # Rounded up, so that it is at least one.
    part = ceil(len(rewards) / SHARE)
    (first_step, first), (last_step, last) = evaluations[0], evaluations[-1]
    return HeldOutChange(
        reward_before=fmean(rewards[:part]), reward_after=fmean(rewards[-part:]), step_before=first_step,
        step_after=last_step, difference=paired_values(_scores(first), _scores(last),
                                                       clusters[:len(first)]))


def _scores(marks: str) -> list[float]:
    return [float(mark == RIGHT) for mark in marks]
