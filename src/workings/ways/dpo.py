"""DPO: direct preference optimization (arXiv 2305.18290), and IPO (2310.12036)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from workings.config.section import refused
from workings.errors import RequestError
from workings.objectives.preference import Preference
from workings.ways.parts.pair_way import ReferencedPairs


class Dpo(ReferencedPairs):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one.

    Likelier is relative to the model before training, the reference.
    """

    name: Literal["dpo"]
    """Direct preference optimization."""
    beta: float = Field(default=0.1, gt=0, strict=False)
    """How close the model stays to the reference: the larger, the closer. For `ipo`, the paper's tau."""
    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: the loss of DPO. `ipo`: a squared distance, which does not push pairs apart without end (TRL:
    `loss_type`)."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5, strict=False)
    """Share of the pairs that are assumed to be labelled the wrong way round; `sigmoid` only."""
    length_normalized: bool = False
    """Whether a completion counts by its mean log probability per token instead of the sum (TRL: `sigmoid_norm`);
    `sigmoid` only, `ipo` always takes the mean."""

    @model_validator(mode="after")
    def options_belong_to_the_loss(self) -> Self:
        """Refuses keys that the loss does not use."""
        try:
            # `Preference` knows which fields go together; here its refusal only gets the form of the recipe's.
            _ = self.objective
        except RequestError as error:
            raise refused(error.given, error.expected, error.try_next) from None
        return self

    @property
    def objective(self) -> Preference:
        """The loss of an update."""
        return Preference(beta=self.beta, loss=self.loss, label_smoothing=self.label_smoothing,
                          length_normalized=self.length_normalized)


WAYS = (Dpo,)
