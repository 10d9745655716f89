"""Evaluation loss, samples and the score on held-out items, at intervals during training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Engine, Sampler, State
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.progress import slow_operation
from workings.scoring.items import Item
from workings.training.held_out_items import HeldOutItems


@dataclass(frozen=True, kw_only=True)
class LoggedSample:
    """A model's answer to a question after a step."""

    step: int
    prompt: str
    text: str
    finish_reason: str

    @property
    def line(self) -> str:
        """Line of the run's log; the page's time line parses it."""
        return f"sample after step {self.step}: {self.prompt!r} -> {self.text!r} ({self.finish_reason})"


@dataclass(frozen=True, kw_only=True)
class HeldOutObserver:
    """Measures the model every ``every_steps`` steps and at the last one.

    The loss is the mean negative log likelihood over all supervised tokens of ``batches`` (nats), added up in the
    order given so that it repeats exactly. Samples are greedy completions of ``questions``.
    """

    engine: Engine
    sampler: Engine | Sampler
    """Writes the samples: often the engine itself."""
    batches: Sequence[Batch]
    questions: Sequence[Item]
    tokenizer: Tokenizer
    template: ChatTemplate
    max_new_tokens: int
    every_steps: int
    last_step: int
    log_sample: Callable[[LoggedSample], None]
    """Shows and logs a sample."""
    held_out_items: HeldOutItems | None = None
    """Items whose answers are scored; None without one."""

    def is_due(self, step: int) -> bool:
        """Whether the model is measured after this step."""
        # The last step in any case, so that the curve ends where the run does.
        return step % self.every_steps == 0 or step == self.last_step

    def evaluate(self, state: State, step: int) -> dict[str, Any]:
        """Fields for the metrics line of this step; samples go to the log."""
        with slow_operation(f"looking at the model after step {step}"):
            self._log_samples(state, step)
            fields = {} if self.held_out_items is None else self.held_out_items.evaluate(state)
            return fields | self._loss(state)

    def _loss(self, state: State) -> dict[str, Any]:
        if not self.batches:
            return {}
        # Sums and not means: batches have different numbers of supervised tokens.
        sums = [self.engine.evaluate(state, batch) for batch in self.batches]
        # The mean over all tokens, as if they were one batch.
        tokens = sum(part.supervised_tokens for part in sums)
        return {"evaluation_loss": sum(part.loss_sum for part in sums) / tokens, "evaluation_supervised_tokens": tokens}

    def _log_samples(self, state: State, step: int) -> None:
        if not self.questions:
            return
        completions = self.sampler.generate(
            state, [self.template.prompt_ids(item.prompt, item.history) for item in self.questions],
            max_new_tokens=self.max_new_tokens, stop_ids=self.template.stop_ids)
        for item, completion in zip(self.questions, completions, strict=True):
            self.log_sample(LoggedSample(step=step, prompt=item.prompt, text=self.tokenizer.decode(completion.tokens),
                                         finish_reason=completion.finish_reason))
