"""KTO: Kahneman-Tversky optimization, which learns from verdicts instead of pairs (arXiv 2402.01306)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo

from workings.config.section import refused
from workings.objectives import kto
from workings.ways.parts.pair_way import ReferencedPairs

if TYPE_CHECKING:
    from workings.config.data import DataConfig
    from workings.config.recipe import Recipe
    from workings.data.pair_rows import PairRows
    from workings.data.rows import RowSet
    from workings.inputs.datasets import RunData
    from workings.models.chat import ChatTemplate
    from workings.models.tokenizer import Tokenizer


class Kto(ReferencedPairs):
    """Trains on single completions with a verdict: correct ones become likelier, wrong ones less likely.

    Likelier is relative to the model before training, the reference, and to how far the model has drifted from it. Each
    completion has a second row next to it, another completion of the same prompt, by which the drift is estimated.
    """

    name: Literal["kto"]
    """Kahneman-Tversky optimization: verdicts on single completions."""
    examples: ClassVar[Literal["traces", "pairs", "prompts", "verdicts"]] = "verdicts"
    beta: float = Field(default=0.1, gt=0, strict=False)
    """How close the model stays to the reference: the larger, the closer."""
    right_weight: float = Field(default=1.0, gt=0, strict=False)
    """Weight of correct completions (TRL: `desirable_weight`). With counts that differ much, the weighted counts should
    be about equal."""
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

    def entries(self, data: RunData) -> Sequence[Any]:
        """Completions with their verdicts."""
        return data.verdicts

    def build_rows(self, entries: Sequence[Any], tokenizer: Tokenizer, template: ChatTemplate,
                   config: DataConfig) -> RowSet:
        """Two rows for each verdict. Raises `RequestError` for one that must not be learned from."""
        from workings.data.pair_rows import build_verdict_rows
        return build_verdict_rows(entries, tokenizer, template, config).rows

    @classmethod
    def grouped(cls, rows: RowSet) -> PairRows:
        """Rows with those of a verdict together."""
        from workings.data.pair_rows import VerdictRows
        return VerdictRows(rows)

    def ids_of_examples(self, row_ids: Sequence[str]) -> set[str]:
        """Ids of the verdicts."""
        from workings.data.pair_rows import verdict_ids
        return {*verdict_ids([*row_ids])}


WAYS = (Kto,)
