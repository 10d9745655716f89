"""Batches of traces of a record with a teacher's top tokens, and wrong ones that must not come out alike."""

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
class TaughtSource:
    """Batches of traces: they follow from their position, from the record, and from the teacher."""

    batches: Batches
    objective: TopTokens
    recorded: TeacherTopTokens
    """What the teacher said."""
    ask: TopTokensFunction | None = None
    """Asks the teacher again about the rows of a batch; None: what is recorded counts."""
    change: Callable[[Batch], Batch] = lambda batch: batch
    """For controls: what is learned from in place of the right batch."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` where the record says nothing of a row."""
        del state, step
        batch, after = self.batches.at(position)
        said = self.recorded
        # In a later epoch rows have other neighbours than when they were asked about, which may change last bits.
        if self.ask is not None and position.epoch == 0:
            said = {**said, **teacher_top_tokens_by_row(self.ask, self.batches, position)}
        learned = with_top_tokens(batch, self.batches.row_ids(position), said, self.objective)
        return StepInputs(batch=self.change(learned), after=after, digest=self.batches.digest(batch))


def with_another_top_token(batch: Batch) -> Batch:
    """A batch in which the teacher finds the most likely token of the first learned position half as likely."""
    name = next(name for name in sorted(batch.signals) if name.startswith("teacher_log_prob_"))
    signal = batch.signals[name].copy()
    signal.reshape(-1)[batch.loss_mask.reshape(-1).argmax()] -= 0.7
    return replace(batch, signals={**batch.signals, name: signal})
