"""Cross entropy: imitation of what is in the traces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.objectives.base import Array, ArrayFunctions, Terms


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Negative log likelihood in nats: imitation. Engines compute it and its gradient in one walk over the logits."""

    name: ClassVar[str] = "cross_entropy"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        del array, signals
        return Terms(total=-(log_probs_BS * mask_BS).sum())


CROSS_ENTROPY = CrossEntropy()
OBJECTIVE = CrossEntropy
