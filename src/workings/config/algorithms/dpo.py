"""DPO: direct preference optimization (arXiv 2305.18290), and IPO (2310.12036)."""

from typing import Literal, Self

from pydantic import Field, model_validator

from workings.config.section import Section, refused
from workings.errors import RequestError
from workings.objectives.preference import Preference


class Dpo(Section):
    """Pairs of completions are learned from: the chosen one becomes likelier than the rejected one.

    Likelier means: than under the model that training began with, the reference. It is asked once, before the first
    step, and not kept.
    """

    name: Literal["dpo"]
    """Direct preference optimization."""
    beta: float = Field(default=0.1, gt=0, strict=False)
    """How closely the model stays by the reference: the larger, the closer. Of `ipo`, the paper's tau."""
    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: DPO's. `ipo`: a squared distance, which does not push pairs apart without end (TRL: `loss_type`)."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5, strict=False)
    """Share of the labels that are taken to be the wrong way round; `sigmoid` only."""
    length_normalized: bool = False
    """Whether a completion counts by its mean log probability a token and not by the sum (TRL: `sigmoid_norm`);
    `sigmoid` only, `ipo` takes the mean always."""

    @model_validator(mode="after")
    def options_belong_to_the_loss(self) -> Self:
        """What a loss does not know is refused."""
        try:
            _ = self.objective
        except RequestError as error:
            raise refused(error.given, error.expected, error.try_next) from None
        return self

    @property
    def objective(self) -> Preference:
        """What an update minimizes."""
        return Preference(beta=self.beta, loss=self.loss, label_smoothing=self.label_smoothing,
                          length_normalized=self.length_normalized)
