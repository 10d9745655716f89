"""Ways that learn from preferences: two rows for each example, side by side in a micro batch.

DPO: direct preference optimization (arXiv 2305.18290), and IPO (2310.12036). KTO: Kahneman-Tversky optimization, which
learns from verdicts instead of pairs (2402.01306). ORPO: imitation and preference in one loss, without a reference
(2403.07691). SimPO: simple preference optimization without a reference (2405.14734).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from workings.config.algorithm import Algorithm, Examples
from workings.config.section import refused
from workings.errors import RequestError
from workings.objectives import kto, preference
from workings.objectives.preference import Preference
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS

if TYPE_CHECKING:
    from workings.config.recipe import Recipe


class PairWay(Algorithm):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one."""

    examples: ClassVar[Examples] = "pairs"
    rows_per_example = 2
    records: ClassVar[tuple[str, ...]] = (ROWS,)
    controls: ClassVar[tuple[str, ...]] = ("pair",)
    beta: float = Field(gt=0, strict=False)

    def check(self, recipe: Recipe, info: ValidationInfo) -> None:
        """Refuses half a pair in a micro batch, and pairs that share a sequence."""
        super().check(recipe, info)
        rows, packing = recipe.batch.micro_batch, recipe.data.packing
        if rows % 2:
            raise refused(f"batch.micro_batch: {rows} does not fit algorithm.name: {self.name}",
                          "an even number: it counts rows, and a pair has two", f"batch.micro_batch={rows + 1}")
        if packing != "none":
            raise refused(f"algorithm.name: {self.name} does not take data.packing: {packing}",
                          "one row per sequence: the two rows of a pair are compared", "data.packing=none")


class ReferencedPairs(PairWay):
    """Pairs of rows, each compared with its log probability under a reference: the model before training."""

    reads_reference_first = True
    records = (ROWS, REFERENCE_LOG_PROBS)
    controls = ("pair", "reference")


class Dpo(ReferencedPairs):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one.

    Likelier is relative to the model before training, the reference.
    """

    name: Literal["dpo"]
    """Direct preference optimization."""
    beta: float = Field(default=0.1, gt=0, strict=False)
    """How close the model stays to the reference: the larger, the closer. For `ipo`, the paper's tau."""
    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: the loss of DPO. `ipo`: a squared distance, which bounds how far pairs move (TRL: `loss_type`)."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5, strict=False)
    """Share of the pairs that are assumed to be labelled the wrong way round; `sigmoid` only."""
    length_normalized: bool = False
    """Whether `sigmoid` uses the mean log probability per token (TRL: `sigmoid_norm`), as `ipo` always does."""

    @model_validator(mode="after")
    def _options_belong_to_the_loss(self) -> Self:
        try:
            _ = self.objective
        # Inside of a validator pydantic expects an error of its kind.
        except RequestError as error:
            raise refused(error.given, error.expected, error.try_next) from None
        return self

    @property
    def objective(self) -> Preference:
        """The loss of an update."""
        return Preference(beta=self.beta, loss=self.loss, label_smoothing=self.label_smoothing,
                          length_normalized=self.length_normalized)


class Kto(ReferencedPairs):
    """Trains on single completions with a verdict: correct ones become likelier, wrong ones less likely.

    Likelier is relative to the model before training, the reference, and to how far the model has drifted from it. Each
    completion has a second row next to it, another completion of the same prompt, by which the drift is estimated.
    """

    name: Literal["kto"]
    """Kahneman-Tversky optimization: verdicts on single completions."""
    examples = "verdicts"
    beta: float = Field(default=0.1, gt=0, strict=False)
    """How close the model stays to the reference: the larger, the closer."""
    right_weight: float = Field(default=1.0, gt=0, strict=False)
    """Weight of correct completions (TRL: `desirable_weight`); balances very different numbers of both kinds."""
    wrong_weight: float = Field(default=1.0, gt=0, strict=False)
    """Weight of wrong completions (TRL: `undesirable_weight`)."""

    @property
    def objective(self) -> kto.Kto:
        """The loss of an update."""
        return kto.Kto(beta=self.beta, right_weight=self.right_weight, wrong_weight=self.wrong_weight)

    def check(self, recipe: Recipe, info: ValidationInfo) -> None:
        """Refuses micro batches of one completion, which say too little of the drift."""
        super().check(recipe, info)
        if recipe.batch.micro_batch < 4:
            raise refused(f"batch.micro_batch: {recipe.batch.micro_batch} is too small for algorithm.name: {self.name}",
                          "at least 4: two rows for each completion, and a drift that is a mean of several",
                          "batch.micro_batch=4")


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


WAYS = (Dpo, Kto, Orpo, SimPo)
