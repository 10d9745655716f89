"""Supervised fine-tuning: traces are imitated."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from workings.hardware.device import row_devices
from workings.objectives.base import CROSS_ENTROPY, CrossEntropy
from workings.record.layout import ROWS
from workings.ways.base import Way

if TYPE_CHECKING:
    from workings.engines.base import Engine
    from workings.inputs.resolve import ResolvedRun
    from workings.ways.parts.replay_source import BatchSource, ReopenedRun
    from workings.ways.parts.row_data import TraceData


class Sft(Way):
    """Traces are imitated: supervised fine-tuning by cross entropy."""

    name: Literal["sft"]
    """Supervised fine-tuning on traces."""
    learns_earlier_turns: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = (ROWS,)

    @property
    def objective(self) -> CrossEntropy:
        """The loss of an update."""
        return CROSS_ENTROPY

    def prepare(self, resolved: ResolvedRun, engine: Engine) -> TraceData:
        """Rows of traces, in batches whose order is known before the first step."""
        from workings.ways.parts.row_data import TraceData, read_rows
        return TraceData.of(resolved.recipe, read_rows(resolved), row_devices(engine.describe().mesh))

    def replay(self, opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
        """Batches follow from their position."""
        from workings.ways.parts.row_data import TraceData
        from workings.ways.parts.row_replay import RowSource
        del exact
        recipe = opened.recipe.model_copy(update={"seed": seed})
        return RowSource(batches=TraceData.of(recipe, opened.rows, opened.row_devices).batches)


WAYS = (Sft,)
