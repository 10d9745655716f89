"""SimPO: simple preference optimization without a reference (arXiv 2405.14734)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workings.objectives import preference
from workings.ways.parts.pair_way import PairWay


class SimPo(PairWay):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one.

    A completion's reward is its mean log probability a token, and no reference is asked.
    """

    name: Literal["simpo"]
    """Simple preference optimization without a reference."""
    beta: float = Field(default=2.0, gt=0, strict=False)
    """Factor of a completion's mean log probability a token."""
    gamma: float = Field(default=1.0, ge=0, strict=False)
    """Margin of rewards that is asked for (TRL: `simpo_gamma`); in the paper half of `beta` (TRL's `beta` is 0.1)."""

    @property
    def objective(self) -> preference.SimPo:
        """The loss of an update."""
        return preference.SimPo(beta=self.beta, gamma=self.gamma)


WAYS = (SimPo,)
