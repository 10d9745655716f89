"""Batches of traces with what a teacher finds the most likely: it is asked once, before the first step.

Shape suffixes: A accumulation, B rows, S positions, K tokens of a position.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.top_tokens import KeptRow, Said, TopTokensOfRow, of_batch, places_of_rows
from workings.engines.base import State
from workings.errors import RecordError, TrainingFailed
from workings.models.batch import Batch
from workings.objectives.top_tokens import TopTokens
from workings.training.experience import PreparedBatch, TraceExperience

AskedForTokens = Callable[[Batch], tuple[np.ndarray, np.ndarray]]
"""What a teacher finds the most likely at a batch's positions: ``[A, B, S, K]`` tokens and their log probabilities, as
`TeachingEngine.most_likely` says them."""


def ask_about(ask: AskedForTokens, batches: Batches, position: Position) -> dict[str, TopTokensOfRow]:
    """What a teacher says of the rows of one batch. Raises `TrainingFailed` for a number that is not finite."""
    batch, _ = batches.at(position)
    tokens, log_probs = ask(batch)
    if not np.isfinite(log_probs).all():
        raise TrainingFailed(f"a log probability of the teacher is not finite, in batch {position.batch + 1}")
    return of_batch(batch, batches.row_ids(position), tokens, log_probs)


def with_top_tokens(batch: Batch, row_ids: Sequence[Sequence[str]], said: Said, objective: TopTokens) -> Batch:
    """A batch with what its objective needs to know. Raises `RecordError` where nothing is known of a row."""
    size = (int(np.prod(batch.tokens.shape[:2])), batch.tokens.shape[-1])
    signals = {name: np.zeros(size, np.float32) for name in objective.signals}
    for name, number, places in places_of_rows(batch, row_ids):
        row = said[name].load() if name in said else None
        if row is None or len(row.tokens_NK) != len(places):
            raise RecordError(f"nothing fitting is known of what the teacher says of row {name[:80]!r}")
        for place, (token, log_prob) in enumerate(zip(objective.target_signals, objective.log_prob_signals,
                                                      strict=True)):
            signals[token][number, places] = row.tokens_NK[:, place]
            signals[log_prob][number, places] = row.log_probs_NK[:, place]
    return replace(batch, signals={name: x.reshape(batch.tokens.shape) for name, x in signals.items()})


class TaughtExperience(TraceExperience):
    """Batches of traces: pure functions of their position and of what the teacher has said."""

    def __init__(self, batches: Batches, objective: TopTokens, *, parts: Sequence[range],
                 opened: Callable[[], AskedForTokens], kept: Callable[[int, range], dict[str, KeptRow] | None],
                 keep: Callable[[int, Mapping[str, TopTokensOfRow]], None]) -> None:
        """Ask nothing yet.

        Args:
            batches: of traces.
            objective: what is minimized.
            parts: of the first epoch's batches, as they are kept (`TopTokenFiles`).
            opened: opens the teacher. It is called where a part is missing, and what it returns is not kept.
            kept: a part that was kept, in this attempt or an earlier one, by its number and its batches; None where
                there is none.
            keep: keeps a part.
        """
        super().__init__(batches)
        self._objective, self._parts = objective, parts
        self._opened, self._kept, self._keep = opened, kept, keep
        self._said: dict[str, KeptRow] = {}

    def start(self, state: State, step: int) -> None:
        """Ask the teacher what no earlier attempt has asked. Raises `RecordError` where that is lost."""
        del state
        ask: AskedForTokens | None = None
        for number, part in enumerate(self._parts):
            said = self._kept(number, part)
            if said is None:
                if step:  # what was learned from is not there any more
                    raise RecordError(f"part {number} of what the teacher said is lost, and {step} steps are taken")
                ask = ask or self._opened()
                self._keep(number, {name: row for batch in part for name, row in
                                    ask_about(ask, self._batches, Position(0, batch)).items()})
                said = self._kept(number, part)
            assert said is not None  # it was kept just now
            self._said |= said

    def take(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` and `with_top_tokens` do."""
        prepared = super().take(state, position, step)
        return replace(prepared, batch=with_top_tokens(prepared.batch, self._batches.row_ids(position), self._said,
                                                       self._objective))
