"""ORPO: imitation and preference in one loss, without a reference (arXiv 2403.07691)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workings.objectives import preference
from workings.ways.parts.pair_way import PairWay


class Orpo(PairWay):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one.

    The chosen completion is imitated at the same time, so that no imitation has to come before, and no
    reference is asked.
    """

    name: Literal["orpo"]
    """Imitation and preference in one loss, without a reference."""
    beta: float = Field(default=0.1, gt=0, strict=False)
    """Weight of the preference next to imitation; the paper's lambda."""

    @property
    def objective(self) -> preference.Orpo:
        """The loss of an update."""
        return preference.Orpo(beta=self.beta)


WAYS = (Orpo,)
