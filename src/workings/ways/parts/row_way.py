"""How a way that learns from rows prepares its data and replays its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workings.hardware.device import row_devices
from workings.ways.base import Way

if TYPE_CHECKING:
    from workings.engines.base import Engine
    from workings.inputs.resolve import ResolvedRun
    from workings.ways.parts.replay_source import BatchSource, ReopenedRun
    from workings.ways.parts.row_data import TraceData
    from workings.ways.parts.training_data import TrainingData


class RowWay(Way):
    """A way that learns from rows which are there before the run: traces, pairs or verdicts."""

    def row_data(self) -> type[TraceData]:
        """Kind of its training data."""
        from workings.ways.parts.row_data import TraceData
        return TraceData

    def prepare(self, resolved: ResolvedRun, engine: Engine) -> TrainingData:
        """Reads the rows, and refuses what must not be trained on."""
        from workings.ways.parts.row_data import read_rows
        data = self.row_data()(recipe=resolved.recipe, rows=read_rows(resolved),
                               devices=row_devices(engine.describe().mesh))
        data.check(engine)
        return data

    def replay(self, opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
        """The rows in the batches of this seed."""
        from workings.ways.parts.replays import RowSource
        del exact
        data = self.reopened_data(opened, seed)
        return RowSource(batches=data.batches, add=data.add_signals)

    def reopened_data(self, opened: ReopenedRun, seed: int) -> Any:
        """The rows of a run in the batches of a seed."""
        return self.row_data()(recipe=opened.recipe.model_copy(update={"seed": seed}), rows=opened.rows,
                               devices=opened.row_devices)
