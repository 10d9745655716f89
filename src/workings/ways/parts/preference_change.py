"""Change of preferences over a run with preference pairs, from its log; never a reason to stop."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean
from typing import Any

from workings.record.number_text import percent

PART = 10
"""Fraction (a tenth) of the steps at the start and at the end that is compared."""


@dataclass(frozen=True, kw_only=True)
class PreferenceChange:
    """Means over the last tenth of the steps, and changes since the first tenth."""

    accuracy: float
    margin: float
    chosen_nats: float
    """Mean change of a chosen completion's log probability. Relative to the reference, so that it does not depend on
    which rows, long or short, the steps had."""
    rejected_nats: float
    """The same for rejected completions."""
    per_token: bool = False
    """Whether both are means over tokens, without a reference."""

    @property
    def chosen_fell(self) -> bool:
        """Whether chosen completions became less likely; they are then only less unlikely than the rejected ones."""
        return self.chosen_nats < 0

    @property
    def sentence(self) -> str:
        """The change in words."""
        nats = "nats per token" if self.per_token else "nats"
        text = (f"accuracy {percent(self.accuracy)}, margin {self.margin:.3g} over the last steps; log probability of "
                f"chosen completions {self.chosen_nats:+.3g} {nats} since the first steps, of rejected ones "
                f"{self.rejected_nats:+.3g}")
        more = "" if self.per_token else ", more algorithm.beta or algorithm.loss=ipo"
        return text + (". The chosen ones fell: the model now writes neither as readily as before; less learning_rate"
                       f"{more} holds them" if self.chosen_fell else "")

    def facts(self) -> dict[str, Any]:
        """Fields of the manifest and of events."""
        return {key: value for key, value in asdict(self).items() if key != "per_token"} | {
            "chosen_fell": self.chosen_fell}


def preference_change(metrics: Sequence[Mapping[str, Any]], beta: float, *, per_token: bool = False
                      ) -> PreferenceChange | None:
    """The change over metrics lines; None without two steps."""
    if len(metrics) < 2:
        return None
    # At least one step a side, also of a run with fewer than ten.
    count = ceil(len(metrics) / PART)

    def mean(name: str, lines: Sequence[Mapping[str, Any]]) -> float:
        return fmean(line[name] for line in lines)

    def change(name: str) -> float:
        # An implied reward is beta times the nats by which a row became likelier.
        return (mean(name, metrics[-count:]) - mean(name, metrics[:count])) / beta

    return PreferenceChange(accuracy=mean("accuracy", metrics[-count:]), margin=mean("margin", metrics[-count:]),
                            chosen_nats=change("chosen_reward"), rejected_nats=change("rejected_reward"),
                            per_token=per_token)
