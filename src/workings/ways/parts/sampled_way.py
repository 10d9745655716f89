"""How a way with rollouts prepares its prompts and replays its updates."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from workings.hardware.device import row_devices
from workings.ways.parts.rollout_way import RolloutWay

if TYPE_CHECKING:
    from workings.engines.base import Engine
    from workings.inputs.resolve import ResolvedRun
    from workings.ways.parts.replay_source import BatchSource, ReopenedRun
    from workings.ways.parts.training_data import PromptData


class SampledWay(RolloutWay):
    """The part of a way with rollouts that needs prompts and engines; `RolloutWay` alone is arithmetic."""

    @abstractmethod
    def judges(self, resolved: ResolvedRun) -> dict[str, Any]:
        """What completions earn: `rewards` or `teacher` of the run's `PromptData`."""

    def prepare(self, resolved: ResolvedRun, engine: Engine) -> PromptData:
        """Prompts; completions are sampled and rewarded when an update needs them."""
        from workings.ways.parts.training_data import PromptData, prompts_of
        data = PromptData(resolved=resolved, prompts=prompts_of(resolved), devices=row_devices(engine.describe().mesh),
                          **self.judges(resolved))
        data.check(engine)
        return data

    def replay(self, opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
        """Rollouts with the recorded rewards; a teacher scores them again if it can be opened."""
        from workings.ways.parts.replays import replayed_rollouts
        return replayed_rollouts(opened, seed, exact=exact)

    def wrong_replays(self, opened: ReopenedRun, source: BatchSource, *,
                      exact: bool) -> dict[str, tuple[str, BatchSource]]:
        """Rollouts that are changed before their batches are made."""
        from workings.ways.parts.replays import ROLLOUT_CONTROLS, replayed_rollouts
        del source
        return {name: (words, replayed_rollouts(opened, opened.recipe.seed, exact=exact, change=change))
                for name, (words, change) in ROLLOUT_CONTROLS.items() if name in self.controls}
