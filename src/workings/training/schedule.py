"""Learning rate by step: linear warm-up, then constant, linear or cosine."""

import math
from dataclasses import dataclass
from typing import Literal

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
        ``peak * final_share`` at the last step. The schedules of transformers are the same curve one step later.
        """
        if not 1 <= step <= self.steps:
            raise ValueError(f"step {step} is outside 1..{self.steps}")
        if step <= self.warmup_steps:
            return self.peak * step / self.warmup_steps
        share = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        # The share of the way from the last rate up to the peak.
        left = {"constant": 1.0, "linear": 1.0 - share, "cosine": 0.5 * (1.0 + math.cos(math.pi * share))}[self.kind]
        return self.peak * (self.final_share + (1.0 - self.final_share) * left)
