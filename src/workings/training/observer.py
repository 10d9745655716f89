"""Measures the model at intervals during training: evaluation loss, samples, and the score on held-out items."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Completion, Engine, State
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.metrics import RIGHT, WRONG
from workings.record.progress import slow_operation
from workings.scoring.items import Item
from workings.scoring.worker_pool import ScoringProcess


@dataclass(frozen=True, kw_only=True)
class HeldOutObserver:
    """Measures the model every ``every_steps`` steps, and after the last step."""

    engine: Engine
    batches: Sequence[Batch]
    """Batches of held-out traces, for the loss."""
    questions: Sequence[Item]
    """Items whose answers are shown."""
    items: Sequence[Item]
    """Items whose answers are scored."""
    scorer: ScoringProcess | None
    """Scores by the recipe's `evaluation.scorer`; None without items."""
    tokenizer: Tokenizer
    template: ChatTemplate
    max_new_tokens: int
    batch_size: int
    """Number of items that are answered at a time."""
    every_steps: int
    last_step: int
    log_sample: Callable[[str], None]
    """Shows and logs a sample: question, answer and finish reason in one line."""

    def is_due(self, step: int) -> bool:
        """Whether the model is measured after this step."""
        has_work = bool(self.batches or self.questions or self.items)
        return has_work and (step % self.every_steps == 0 or step == self.last_step)

    def evaluate(self, state: State, step: int) -> dict[str, Any]:
        """Fields for the metrics line of this step. Samples are logged."""
        with slow_operation(f"looking at the model after step {step}"):
            for item, completion in zip(self.questions, self._answers(state, self.questions), strict=True):
                text = self.tokenizer.decode(completion.tokens)
                self.log_sample(f"sample after step {step}: {item.prompt!r} -> {text!r} ({completion.finish_reason})")
            return self.score(state) | self._loss(state)

    def score(self, state: State) -> dict[str, Any]:
        """Fields of a metrics line; empty without items. An answer that cannot be scored is wrong."""
        if self.scorer is None:
            return {}
        marks = ""
        for start in range(0, len(self.items), self.batch_size):
            items = self.items[start:start + self.batch_size]
            judgements = self.scorer.judge([
                (item, self.tokenizer.decode(completion.tokens), completion.stop_token is None)
                for item, completion in zip(items, self._answers(state, items), strict=True)])
            marks += "".join(RIGHT if judgement.score == 1 else WRONG for judgement in judgements)
        return {"held_out_score": marks.count(RIGHT) / len(marks), "held_out_items": len(marks),
                "held_out_right": marks}

    def _loss(self, state: State) -> dict[str, Any]:
        """The mean negative log likelihood over all supervised tokens of the batches, in nats."""
        if not self.batches:
            return {}
        # Every token counts the same, as if all batches were one.
        sums = [self.engine.evaluate(state, batch) for batch in self.batches]
        tokens = sum(part.supervised_tokens for part in sums)
        return {"evaluation_loss": sum(part.loss_sum for part in sums) / tokens, "evaluation_supervised_tokens": tokens}

    def _answers(self, state: State, items: Sequence[Item]) -> Sequence[Completion]:
        if not items:
            return []
        return self.engine.generate(
            state, [self.template.prompt_ids(item.prompt, item.history) for item in items],
            max_new_tokens=self.max_new_tokens, stop_ids=self.template.stop_ids)
