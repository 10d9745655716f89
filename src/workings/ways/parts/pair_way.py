"""A way that learns from preference pairs: two rows each, side by side in a micro batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo

from workings.config.section import refused
from workings.hardware.device import row_devices
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.ways.base import Way

if TYPE_CHECKING:
    from workings.config.data import DataConfig
    from workings.config.recipe import Recipe
    from workings.data.pair_rows import PairRows
    from workings.data.rows import RowSet
    from workings.engines.base import Engine, ProgramName, ProgramShape
    from workings.inputs.datasets import RunData
    from workings.inputs.resolve import ResolvedRun
    from workings.models.batch import BatchShape
    from workings.models.chat import ChatTemplate
    from workings.models.tokenizer import Tokenizer
    from workings.ways.parts.replay_source import BatchSource, ReopenedRun
    from workings.ways.parts.row_data import PairData


class PairWay(Way):
    """Trains on pairs of completions: the chosen one becomes likelier than the rejected one."""

    examples: ClassVar[Literal["traces", "pairs", "prompts", "verdicts"]] = "pairs"
    rows_per_example: ClassVar[int] = 2
    records: ClassVar[tuple[str, ...]] = (ROWS,)
    beta: float = Field(gt=0, strict=False)

    def check(self, recipe: Recipe, info: ValidationInfo) -> None:
        """Refuses half a pair in a micro batch, and pairs that share a sequence."""
        super().check(recipe, info)
        rows, packing = recipe.batch.micro_batch, recipe.data.packing
        # Chosen and rejected are neighbors in a micro batch, so that one pass gives both losses.
        if rows % 2:
            raise refused(f"batch.micro_batch: {rows} does not fit algorithm.name: {self.name}",
                          "an even number: it counts rows, and a pair has two", f"batch.micro_batch={rows + 1}")
        if packing != "none":
            raise refused(f"algorithm.name: {self.name} does not take data.packing: {packing}",
                          "one row per sequence: the two rows of a pair are compared", "data.packing=none")

    def entries(self, data: RunData) -> Sequence[Any]:
        """Preference pairs."""
        return data.pairs

    def build_rows(self, entries: Sequence[Any], tokenizer: Tokenizer, template: ChatTemplate,
                   config: DataConfig) -> RowSet:
        """Two rows for each pair. Raises `RequestError` for a pair that must not be learned from."""
        from workings.data.pair_rows import build_pair_rows
        return build_pair_rows(entries, tokenizer, template, config).rows

    @classmethod
    def grouped(cls, rows: RowSet) -> PairRows:
        """Rows with those of a pair together."""
        from workings.data.pair_rows import PairRows
        return PairRows(rows)

    def learned_form(self, recipe: Recipe) -> str:
        """Completions as they are in the pairs."""
        del recipe
        return "…"

    def prepare(self, resolved: ResolvedRun, engine: Engine) -> PairData:
        """Rows of pairs."""
        from workings.ways.parts.row_data import PairData, read_rows
        return PairData.of(resolved.recipe, read_rows(resolved), row_devices(engine.describe().mesh))

    def ids_of_examples(self, row_ids: Sequence[str]) -> set[str]:
        """Ids of the pairs."""
        from workings.data.pair_rows import pair_ids
        return {*pair_ids([*row_ids])}

    def replay(self, opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
        """Batches follow from their position."""
        from workings.ways.parts.row_data import PairData
        from workings.ways.parts.row_replay import RowSource
        del exact
        data = PairData.of(opened.recipe.model_copy(update={"seed": seed}), opened.rows, opened.row_devices)
        return RowSource(batches=data.batches, add=data.add_signals)

    def wrong_replays(self, opened: ReopenedRun, source: BatchSource, *,
                      exact: bool) -> dict[str, tuple[str, BatchSource]]:
        """The two rows of a pair swapped."""
        from workings.ways.parts.row_replay import with_a_pair_swapped, wrong_rows
        del opened, exact
        return wrong_rows(source, {"pair": ("one pair of every step swapped", with_a_pair_swapped)})


class ReferencedPairs(PairWay):
    """Pairs of rows, each compared with its log probability under a reference: the model before training.

    Its log probabilities are computed once, before the first step.
    """

    reads_reference_first: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = (ROWS, REFERENCE_LOG_PROBS)

    def programs(self, recipe: Recipe, step: BatchShape, most_prompts: int) -> dict[ProgramName, ProgramShape]:
        """The reference's log probabilities of the same batches, before the first step, with the state in memory."""
        del recipe, most_prompts
        return {"log_probs": step}

    def prepare(self, resolved: ResolvedRun, engine: Engine) -> PairData:
        """Rows of pairs; the reference's log probabilities are computed before the first step."""
        from workings.ways.parts.row_data import ReferencedPairData, read_rows
        data = ReferencedPairData.of(resolved.recipe, read_rows(resolved), row_devices(engine.describe().mesh))
        data.check(engine)
        return data

    def replay(self, opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
        """Pairs with the reference's log probabilities."""
        from workings.ways.parts.row_data import ReferencedPairData
        from workings.ways.parts.row_replay import replayed_pairs
        recipe = opened.recipe.model_copy(update={"seed": seed})
        return replayed_pairs(opened, ReferencedPairData.of(recipe, opened.rows, opened.row_devices), exact=exact)

    def wrong_replays(self, opened: ReopenedRun, source: BatchSource, *,
                      exact: bool) -> dict[str, tuple[str, BatchSource]]:
        """Two rows of a pair swapped, and another reference."""
        from workings.ways.parts.row_replay import with_another_reference, wrong_rows
        return super().wrong_replays(opened, source, exact=exact) | wrong_rows(source, {
            "reference": ("one log probability of the reference moved", with_another_reference)})
