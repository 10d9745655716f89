"""The training loop: one function, the same for every engine, in an order that has reasons."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from workings.data.batches import Position
from workings.engines.base import Engine, State, StepResult
from workings.engines.framework_errors import first_line, is_out_of_memory
from workings.errors import TrainingFailed
from workings.training.async_metrics import AsyncMetricsWriter
from workings.training.experience import Experience, PreparedBatch
from workings.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run stands between two steps. Everything of it goes into a checkpoint."""

    step: int
    """Updates taken so far."""
    position: Position
    """Where the next batch starts in the data."""
    tokens: int = 0
    """Real (unpadded) tokens seen so far."""
    supervised_tokens: int = 0
    """Supervised tokens seen so far."""
    seconds: float = 0.0
    """Seconds spent in steps so far, over all attempts."""


class Observer(Protocol):
    """Looks at the model now and then: evaluation loss, samples."""

    def due(self, step: int) -> bool:
        """Whether to look after this step."""
        ...

    def look(self, state: State, step: int) -> dict[str, Any]:
        """What was seen, as fields of that step's metrics line."""
        ...


class NoObserver:
    """Sees nothing; for runs without held-out data."""

    def due(self, step: int) -> bool:
        """Never."""
        return False

    def look(self, state: State, step: int) -> dict[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True, kw_only=True)
class LoopParts:
    """What the loop needs, and nothing that it could decide by itself."""

    engine: Engine
    experience: Experience
    schedule: Schedule
    observer: Observer
    write_metric: Callable[[dict[str, Any]], None]
    save: Callable[[State, Progress], None]
    checkpoint_due: Callable[[int], bool]
    stop_requested: Callable[[], bool]
    show: Callable[[dict[str, Any], Progress], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the loop ended."""

    status: Literal["complete", "interrupted", "failed"]
    state: State
    progress: Progress
    reason: str = ""
    out_of_memory: str = ""
    """What the library said when memory ran out; empty where it did not."""


def train(parts: LoopParts, first: Callable[[], State], progress: Progress) -> Outcome:
    """Take steps until the last one, a request to stop, a step that is not finite, or the end of the memory.

    Args:
        parts: what to do it with.
        first: makes the state to start from; memory may run out in it, too.
        progress: where that state stands.

    The order within a step matters:

    1. *Stop before, never within*: a request is honoured between steps, where state and progress agree.
    2. *Judge before writing*: the update of a step with a loss that is not finite has already spoilt the weights, so
       nothing of it is saved; the last checkpoint is the last good state.
    3. *Look after the update*: evaluation sees the weights that a checkpoint of this step would hold.
    4. *Metrics before checkpoint*: a checkpoint is never ahead of the log, so whatever is resumed finds its lines.
    5. *Progress is what is written down*: where memory runs out, nothing of the step that died is counted.

    A batch that follows from its position alone is made beside the step before; nothing above depends on when. A
    step's line is written beside the step after: before a checkpoint, and before the end, all lines are waited for.
    """
    # No step has this number.
    saved_at = -1
    try:
        with _beside_the_step() as thread, AsyncMetricsWriter(parts.write_metric, thread) as lines:
            if progress.step < parts.schedule.steps:
                # Before the state is made, which may read gigabytes: both go on at once.
                parts.experience.begin(progress.position, thread)
            state = first()
            # Before the clock of the first step: what is found out here is no part of it.
            parts.experience.start(state, progress.step)
            while progress.step < parts.schedule.steps:
                if parts.stop_requested():
                    # A checkpoint of this very step may be there already, and costs as much the second time.
                    if saved_at != progress.step:
                        lines.wait()
                        parts.save(state, progress)
                    return Outcome(status="interrupted", state=state, progress=progress, reason="asked to stop")

                # Waiting for the batch counts as time of the step; evaluation and saving do not.
                started = time.perf_counter()
                prepared = parts.experience.take(state, progress.position, progress.step + 1)
                if progress.step + 1 < parts.schedule.steps:
                    # Before the step, which returns only when the device is done: the next batch is made meanwhile.
                    parts.experience.begin(prepared.after, thread)
                learning_rate = parts.schedule.at(progress.step + 1)
                # The old state is consumed: from here on nothing but the new one may be used.
                state, result = parts.engine.step(state, prepared.batch, learning_rate)
                seconds = time.perf_counter() - started

                step = progress.step + 1
                if not (math.isfinite(result.loss) and math.isfinite(result.grad_norm)):
                    return Outcome(status="failed", state=None, progress=progress,
                                   reason=f"step {step}: loss {result.loss}, gradient norm {result.grad_norm}")

                after = replace(
                    progress, step=step, position=prepared.after, tokens=progress.tokens + prepared.tokens,
                    supervised_tokens=progress.supervised_tokens + prepared.supervised_tokens,
                    seconds=progress.seconds + seconds)
                line = _metric(parts.engine, step, prepared, learning_rate, result, seconds)
                # Before anything looks: it raises where the run cannot be learning, and then neither look nor line is
                # wanted.
                line |= parts.experience.finish(step, prepared, result)
                if parts.observer.due(step):
                    line |= parts.observer.look(state, step)
                lines.add(line)
                # Only now does the step count: where something above fails, `progress` does not have it.
                progress = after
                if parts.checkpoint_due(step) or step == parts.schedule.steps:
                    lines.wait()
                    parts.save(state, progress)
                    saved_at = step
                # Last, because callbacks of the caller run in it: whatever they raise, the step counts and its
                # checkpoint is there.
                parts.show(line, progress)
            return Outcome(status="complete", state=state, progress=progress)
    # Going on would be of no use. The step that showed it is not counted: the last checkpoint is the last good state.
    except TrainingFailed as error:
        return Outcome(status="failed", state=None, progress=progress, reason=str(error))
    # XLA and PyTorch report a lack of memory as a RuntimeError, and much else as well.
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        said = first_line(error)
    # Outside of the handler nothing holds the state any more: what is left to write needs memory, too.
    state = None
    return Outcome(status="failed", state=None, progress=progress, out_of_memory=said,
                   reason=f"out of memory after step {progress.step}")


@contextmanager
def _beside_the_step() -> Iterator[Executor]:
    """One thread for what need not wait for the device; what has not begun when the loop ends is left."""
    # One thread does lines and batches in the order in which they were given, so it needs no locks.
    thread = ThreadPoolExecutor(1, thread_name_prefix="beside the step")
    try:
        yield thread
    finally:
        thread.shutdown(cancel_futures=True)


def _metric(engine: Engine, step: int, prepared: PreparedBatch, learning_rate: float, result: StepResult,
            seconds: float) -> dict[str, Any]:
    # Asked behind the step, so that its own peak is in it.
    memory = engine.memory()
    return {
        "step": step,
        "loss": result.loss,
        "learning_rate": learning_rate,
        "grad_norm": result.grad_norm,
        "share_of_weights_changed": result.share_of_weights_changed,
        "tokens": prepared.tokens,
        "supervised_tokens": prepared.supervised_tokens,
        "positions": prepared.batch.tokens.size,
        "batch_digest": prepared.digest,
        "seconds": seconds,
        "memory_bytes": memory.peak_bytes,
        "memory_source": memory.source,
    } | dict(result.metrics) | dict(prepared.metrics)
