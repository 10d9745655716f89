"""Batches of recorded traces with a teacher's top tokens, and wrong ones for the controls."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from workings.data.batches import Batches, Position
from workings.data.top_tokens import TeacherTopTokens
from workings.engines.base import State
from workings.evidence.replay.steps import StepInputs
from workings.models.batch import Batch
from workings.objectives.top_tokens import TopTokens
from workings.training.distillation_experience import TopTokensFunction, teacher_top_tokens_by_row, with_top_tokens


@dataclass(frozen=True, kw_only=True)
class DistillationSource:
    """Batches of traces, which follow from the data position and the teacher's top tokens."""

    batches: Batches
    objective: TopTokens
    recorded: TeacherTopTokens
    """Recorded top tokens of the teacher."""
    compute: TopTokensFunction | None = None
    """Computes those of the rows of a batch again; None: the recorded ones are used."""
    change: Callable[[Batch], Batch] = lambda batch: batch
    """For controls: makes the batch that is used in place of the right one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` for a row without recorded top tokens."""
        del state, step
        batch, after = self.batches.at(position)
        top_tokens = self.recorded
        # In a later epoch rows have other neighbours than when these were computed, which may change last bits.
        if self.compute is not None and position.epoch == 0:
            top_tokens = {**top_tokens, **teacher_top_tokens_by_row(self.compute, self.batches, position)}
        with_teacher = with_top_tokens(batch, self.batches.row_ids(position), top_tokens, self.objective)
        return StepInputs(batch=self.change(with_teacher), after=after, digest=self.batches.digest(batch))


def with_another_top_token(batch: Batch) -> Batch:
    """The batch with half the probability of the teacher's most likely token at the first supervised position."""
    name = next(name for name in sorted(batch.signals) if name.startswith("teacher_log_prob_"))
    signal = batch.signals[name].copy()
    signal.reshape(-1)[batch.loss_mask.reshape(-1).argmax()] -= 0.7
    return replace(batch, signals={**batch.signals, name: signal})
