"""Learning rate by step: linear warm-up, then constant, linear or cosine."""

import math
from dataclasses import dataclass
from typing import Literal, assert_never

from workings.config.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Pure function of the step number, so that a resumed run needs no state for it."""

    kind: Literal["constant", "linear", "cosine"]
    peak: float
    steps: int
    warmup_steps: int
    final_share: float

    @classmethod
    def from_config(cls, config: TrainingConfig) -> "Schedule":
        """The schedule that a recipe asks for; ``constant`` has no end value."""
        kind = config.schedule
        return cls(kind=kind, peak=config.learning_rate, steps=config.steps, warmup_steps=config.warmup_steps,
                   final_share=1.0 if kind == "constant" else config.final_share)

    def at(self, step: int) -> float:
        """Learning rate of update number ``step``, counted from 1.

        The first warm-up step already moves (``peak / warmup_steps``); the peak is reached at ``warmup_steps`` and
        ``peak * final_share`` at the last step, as the recipe says; with a share of 0 that step moves nothing. The
        schedules of transformers are the same curve one step later: their first update has a rate of 0 where there is
        a warm-up, and theirs would be 0 after the last.
        """
        if not 1 <= step <= self.steps:
            raise ValueError(f"step {step} is outside 1..{self.steps}")
        if step <= self.warmup_steps:
            # The first update has a rate above 0; with 0 it would change nothing.
            return self.peak * step / self.warmup_steps
        # 0 at the end of the warm-up, 1 at the last step.
        share = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        match self.kind:
            case "constant":
                left = 1.0
            case "linear":
                # A straight line from 1 to 0.
                left = 1.0 - share
            case "cosine":
                # Half a wave from 1 to 0: flat at both ends, steepest in the middle.
                left = 0.5 * (1.0 + math.cos(math.pi * share))
            case _:
                assert_never(self.kind)
        # `left` is the share of the way from the last rate up to the peak.
        return self.peak * (self.final_share + (1.0 - self.final_share) * left)
