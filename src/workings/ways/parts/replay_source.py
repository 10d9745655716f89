"""A sealed run that is opened again, and the source of the batches of its recorded steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from workings.data.batches import Position
from workings.data.rows import RowSet
from workings.engines.base import Engine, State
from workings.hardware.device import row_devices
from workings.inputs.resolve import ResolvedRun
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import rollout_file
from workings.record.reader import RunRecord
from workings.record.storage import read_plain
from workings.record.values import Absent
from workings.rollouts.prompts import PromptSet
from workings.rollouts.rollout import Rollout
from workings.rollouts.rollout_json import from_json
from workings.ways.parts.experience import PreparedBatch
from workings.ways.parts.teacher import LogProbFunction, Teacher


@dataclass(frozen=True, kw_only=True)
class StepInputs(PreparedBatch):
    """Inputs of a step that is recomputed."""

    completion_counts: Mapping[str, int] | None = None
    """With completions sampled before the step: the number recorded, and the number reproduced."""


class BatchSource(Protocol):
    """Gives the batches of recorded steps."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step; ``state`` is read, not consumed."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReopenedRun(ResolvedRun):
    """A sealed run whose steps can be repeated."""

    run: RunRecord
    engine: Engine
    trained_on: RowSet | PromptSet
    """Rows that the run was trained on, or prompts of its rollouts."""
    teacher: Teacher | Absent
    """The teacher, or why it cannot be opened; its recorded log probabilities are then used."""

    @property
    def rows(self) -> RowSet:
        """Rows that the run was trained on; for ways that learn from rows."""
        assert isinstance(self.trained_on, RowSet)
        return self.trained_on

    @property
    def prompts(self) -> PromptSet:
        """Prompts of the run's rollouts; for ways with rollouts."""
        assert isinstance(self.trained_on, PromptSet)
        return self.trained_on

    @property
    def row_devices(self) -> int:
        """Recorded number of devices over which rows were split, regardless of the mesh here."""
        return row_devices(self.run.manifest.device.mesh)

    @cached_property
    def checkpoints_by_step(self) -> dict[int, Path]:
        """Checkpoint folders by step, unchecked."""
        return {int(path.name.removeprefix("step_")): path for path in self.run.checkpoints.folders()}

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, every byte checked. Raises `RecordError`."""
        return self.run.checkpoints.load(self.checkpoints_by_step[step])

    @cached_property
    def first_weights(self) -> State:
        """The model before training, loaded once: it stays in memory together with the trained one."""
        return self.initial_state(self.engine, self.recipe.seed, trainable=False)

    @cached_property
    def teacher_log_probs(self) -> LogProbFunction | None:
        """The teacher's log probabilities; opened once, because all controls need it as well. None: it is not here."""
        return None if isinstance(self.teacher, Absent) else self.teacher.open(self.engine, self)

    def rollout(self, step: int) -> Rollout | None:
        """The rollout whose first update is ``step``, read from its file; None without one."""
        path = self.run.path / rollout_file(step)
        return from_json(loads(read_plain(path)), self.prompts.by_id) if path.is_file() else None
