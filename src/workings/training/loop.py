"""The training loop. It is the same for every engine and every way of learning."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from workings.config.training import TrainingConfig
from workings.data.batches import Position
from workings.engines.base import Engine, State, StepResult
from workings.errors import TrainingFailed, first_line, is_out_of_memory
from workings.record.manifest import REASONS
from workings.record.metrics import padding_share
from workings.training.observer import HeldOutObserver
from workings.ways.parts.experience import Experience, PreparedBatch


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a run between two steps. All fields are saved in each checkpoint."""

    step: int
    """Updates taken so far."""
    position: Position
    """Where the next batch begins in the data."""
    tokens: int = 0
    """Real (unpadded) tokens seen so far."""
    supervised_tokens: int = 0
    """Supervised tokens seen so far."""
    seconds: float = 0.0
    """Seconds spent in steps so far, over all attempts."""

    def after(self, prepared: PreparedBatch, seconds: float) -> "Progress":
        """The progress after one more step, which took this long."""
        return Progress(step=self.step + 1, position=prepared.after, tokens=self.tokens + prepared.batch.real_tokens,
                        supervised_tokens=self.supervised_tokens + prepared.batch.supervised_tokens,
                        seconds=self.seconds + seconds)


class RunHooks:
    """What the loop calls to record, display and save a run, and to ask if it should end. Here nothing happens."""

    def write_metrics(self, line: dict[str, Any]) -> None:
        """Writes a step's metrics line."""

    def stop_requested(self) -> bool:
        """Whether the loop should stop before the next step."""
        return False

    def early_end(self) -> str:
        """Why the run is complete before its last step; empty while it is not."""
        return ""

    def checkpoint_is_due(self, step: int) -> bool:
        """Whether a checkpoint follows this step; the last step always has one."""
        return False

    def save_checkpoint(self, state: State, progress: Progress) -> None:
        """Saves a checkpoint."""

    def step_done(self, line: dict[str, Any], progress: Progress) -> None:
        """Shows a finished step, after its checkpoint. If this raises, the step still counts."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the loop ended."""

    status: Literal["complete", "interrupted", "failed"]
    state: State
    progress: Progress
    reason: str = ""
    out_of_memory: str = ""
    """The library's message if memory ran out; else empty."""


@dataclass(kw_only=True)
class TrainingLoop:
    """Takes steps until the last one, a request to stop, an early end, or a failure.

    A failure is a loss or gradient that is not finite, a lack of memory, or `TrainingFailed`. The order matters:

    1. A request to stop is honoured between steps, where state and progress agree.
    2. A step with a loss that is not finite has spoilt the weights, so nothing of it is saved.
    3. Evaluation follows the update: it uses the weights that a checkpoint of this step has.
    4. Metrics are written before the checkpoint, so a resumed run finds the lines of all its steps.
    5. Progress counts a step only after its metrics are written.
    """

    engine: Engine
    experience: Experience
    training: TrainingConfig
    observer: HeldOutObserver | None
    """None for a run without held-out data."""
    hooks: RunHooks
    progress: Progress
    """Progress of the first state; later that of the last step."""
    saved_step: int | None = None
    """Step of the last checkpoint."""

    def run(self, make_state: Callable[[], State]) -> Outcome:
        """Takes all steps; ``make_state`` makes or restores the first state."""
        try:
            with _background_thread() as thread:
                # The first batch is made while the state is read.
                if self.progress.step < self.training.steps:
                    self.experience.prefetch(self.progress.position, thread)
                state = make_state()
                self.experience.prepare(state, self.progress.step)
                while self.progress.step < self.training.steps:
                    if reason := self.hooks.early_end():
                        self._save(state)
                        return self._outcome("complete", state, reason)
                    if self.hooks.stop_requested():
                        self._save(state)
                        return self._outcome("interrupted", state, REASONS["interrupted"])
                    step = self.progress.step + 1
                    # Waiting for the batch counts as time of the step; evaluation and saving do not.
                    started = time.perf_counter()
                    prepared = self.experience.next_batch(state, self.progress.position, step)
                    # The next batch is made while the engine takes the step.
                    if step < self.training.steps:
                        self.experience.prefetch(prepared.after, thread)
                    state, result = self.engine.step(state, prepared.batch, self.training.rate_at(step))
                    seconds = time.perf_counter() - started
                    if not (math.isfinite(result.loss) and math.isfinite(result.grad_norm)):
                        return self._outcome("failed", None, f"step {step}: loss {result.loss}, gradient norm "
                                                             f"{result.grad_norm}")
                    self._finish_step(step, state, prepared, result, seconds)
                return self._outcome("complete", state)
        except TrainingFailed as error:
            return self._outcome("failed", None, str(error))
        # XLA and PyTorch report a lack of memory, and many other errors, as a RuntimeError.
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return self._outcome("failed", None, f"out of memory after step {self.progress.step}",
                                 out_of_memory=first_line(error))

    def _finish_step(self, step: int, state: State, prepared: PreparedBatch, result: StepResult,
                     seconds: float) -> None:
        """Evaluates, records and shows a step that was taken."""
        memory, batch, positions = self.engine.memory(), prepared.batch, prepared.batch.tokens.size
        line = {
            "step": step, "loss": result.loss, "learning_rate": self.training.rate_at(step),
            "grad_norm": result.grad_norm, "share_of_weights_changed": result.share_of_weights_changed,
            "tokens": batch.real_tokens, "supervised_tokens": batch.supervised_tokens, "positions": positions,
            "padding": padding_share(batch.real_tokens, positions), "batch_digest": prepared.digest, "seconds": seconds,
            "memory_bytes": memory.peak_bytes, "memory_source": memory.source, **result.metrics, **prepared.metrics}
        # Raises if the run cannot be learning; then the step is neither evaluated nor recorded.
        line |= self.experience.after_step(step, prepared, result)
        if self.observer is not None and self.observer.is_due(step):
            line |= self.observer.evaluate(state, step)
        self.hooks.write_metrics(line)
        self.progress = self.progress.after(prepared, seconds)
        if self.hooks.checkpoint_is_due(step) or step == self.training.steps:
            self._save(state)
        # Last, because it calls functions of the user, which may raise.
        self.hooks.step_done(line, self.progress)

    def _save(self, state: State) -> None:
        """Saves a checkpoint, unless there is one of this step already."""
        if self.saved_step != self.progress.step:
            self.hooks.save_checkpoint(state, self.progress)
            self.saved_step = self.progress.step

    def _outcome(self, status: Literal["complete", "interrupted", "failed"], state: State, reason: str = "",
                 **more: Any) -> Outcome:
        return Outcome(status=status, state=state, progress=self.progress, reason=reason, **more)


@contextmanager
def _background_thread() -> Iterator[Executor]:
    """One thread that makes batches in advance; at the end, tasks that have not begun are dropped."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="background of the training loop")
    try:
        yield thread
    finally:
        thread.shutdown(cancel_futures=True)
