"""The training loop: one function, the same for every engine, in an order that has reasons."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from workings.data.batches import Batches, Position
from workings.data.prefetch import Drawn, Prefetcher
from workings.engines.base import Engine, State, StepResult
from workings.engines.errors_text import first_line
from workings.engines.out_of_memory import is_out_of_memory
from workings.training.async_metrics import AsyncMetricsWriter
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
class Course:
    """What the loop needs, and nothing that it could decide by itself."""

    engine: Engine
    batches: Batches
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


def train(course: Course, first: Callable[[], State], progress: Progress) -> Outcome:
    """Take steps until the last one, a request to stop, a step that is not finite, or the end of the memory.

    Args:
        course: what to do.
        first: makes the state to start from; memory may run out in it, too.
        progress: where that state stands.

    The order within a step matters:

    1. *Stop before, never within*: a request is honoured between steps, where state and progress agree.
    2. *Judge before writing*: the update of a step with a loss that is not finite has already spoilt the weights, so
       nothing of it is saved; the last checkpoint is the last good state.
    3. *Look after the update*: evaluation sees the weights that a checkpoint of this step would hold.
    4. *Metrics before checkpoint*: a checkpoint is never ahead of the log, so whatever is resumed finds its lines.
    5. *Progress is what is written down*: where memory runs out, nothing of the step that died is counted.

    The next batch is made beside the step; it is a pure function of its position, so nothing above depends on it. A
    step's line is written beside the step after: before a checkpoint, and before the end, all lines are waited for.
    """
    saved_at = -1
    try:
        with _beside_the_step() as thread, AsyncMetricsWriter(course.write_metric, thread) as lines:
            ahead = Prefetcher(course.batches, thread)
            if progress.step < course.schedule.steps:
                ahead.begin(progress.position)
            state = first()
            while progress.step < course.schedule.steps:
                if course.stop_requested():
                    if saved_at != progress.step:
                        lines.wait()
                        course.save(state, progress)
                    return Outcome(status="interrupted", state=state, progress=progress, reason="asked to stop")

                started = time.perf_counter()
                drawn = ahead.take(progress.position)
                if progress.step + 1 < course.schedule.steps:
                    ahead.begin(drawn.after)
                learning_rate = course.schedule.at(progress.step + 1)
                state, result = course.engine.step(state, drawn.batch, learning_rate)
                seconds = time.perf_counter() - started

                step = progress.step + 1
                if not (math.isfinite(result.loss) and math.isfinite(result.grad_norm)):
                    return Outcome(status="failed", state=None, progress=progress,
                                   reason=f"step {step}: loss {result.loss}, gradient norm {result.grad_norm}")

                after = replace(
                    progress, step=step, position=drawn.after, tokens=progress.tokens + drawn.tokens,
                    supervised_tokens=progress.supervised_tokens + drawn.supervised_tokens,
                    seconds=progress.seconds + seconds)
                line = _metric(course.engine, step, drawn, learning_rate, result, seconds)
                if course.observer.due(step):
                    line |= course.observer.look(state, step)
                lines.add(line)
                progress = after
                if course.checkpoint_due(step) or step == course.schedule.steps:
                    lines.wait()
                    course.save(state, progress)
                    saved_at = step
                course.show(line, progress)
            return Outcome(status="complete", state=state, progress=progress)
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
    thread = ThreadPoolExecutor(1, thread_name_prefix="beside the step")
    try:
        yield thread
    finally:
        thread.shutdown(cancel_futures=True)


def _metric(engine: Engine, step: int, drawn: Drawn, learning_rate: float, result: StepResult,
            seconds: float) -> dict[str, Any]:
    memory = engine.memory()
    return {
        "step": step,
        "loss": result.loss,
        "learning_rate": learning_rate,
        "grad_norm": result.grad_norm,
        "share_of_weights_changed": result.share_of_weights_changed,
        "tokens": drawn.tokens,
        "supervised_tokens": drawn.supervised_tokens,
        "positions": drawn.batch.tokens.size,
        "batch_digest": drawn.digest,
        "seconds": seconds,
        "memory_bytes": memory.peak_bytes,
        "memory_source": memory.source,
    }
