"""Evaluation loss, samples and the score on held-out items, at intervals during training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Completion, Engine, Sampler, State
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.metrics import RIGHT, WRONG
from workings.record.progress import slow_operation
from workings.scoring.items import Item
from workings.scoring.worker_pool import ScoringProcess


@dataclass(frozen=True, kw_only=True)
class HeldOutItems:
    """Held-out items that are answered greedily and scored: they show what a model learns beyond its rewards.

    Nothing is trained on them. The result is a function of the weights alone, so resumed runs agree.
    """

    sampler: Engine | Sampler
    items: Sequence[Item]
    tokenizer: Tokenizer
    template: ChatTemplate
    max_new_tokens: int
    batch_size: int
    """Items that are answered at a time."""
    scorer: ScoringProcess
    """Scores by the recipe's `evaluation.scorer`."""

    def evaluate(self, state: State) -> dict[str, Any]:
        """Fields for a metrics line.

        `held_out_score`, the share of right answers; `held_out_items`, their number; `held_out_right`, for each item in
        order `1` if its answer was right, else `0`. An answer that cannot be scored is wrong.
        """
        marks = ""
        # As many at a time as after training: the plan counted this batch size.
        for start in range(0, len(self.items), self.batch_size):
            items = self.items[start:start + self.batch_size]
            completions = greedy(self.sampler, state, items, self.template, self.max_new_tokens)
            judgements = self.scorer.judge([
                (item, self.tokenizer.decode(completion.tokens), completion.stop_token is None)
                for item, completion in zip(items, completions, strict=True)])
            marks += "".join(RIGHT if judgement.score == 1 else WRONG for judgement in judgements)
        return {"held_out_score": marks.count(RIGHT) / len(marks), "held_out_items": len(marks),
                "held_out_right": marks}


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
    log_sample: Callable[[str], None]
    """Shows and logs a sample: question, answer and end in one line."""
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
        completions = greedy(self.sampler, state, self.questions, self.template, self.max_new_tokens)
        for item, completion in zip(self.questions, completions, strict=True):
            text = self.tokenizer.decode(completion.tokens)
            self.log_sample(f"sample after step {step}: {item.prompt!r} -> {text!r} ({completion.finish_reason})")


def greedy(sampler: Engine | Sampler, state: State, items: Sequence[Item], template: ChatTemplate,
           max_new_tokens: int) -> Sequence[Completion]:
    """A greedy completion of each item, in their order."""
    return sampler.generate(state, [template.prompt_ids(item.prompt, item.history) for item in items],
                            max_new_tokens=max_new_tokens, stop_ids=template.stop_ids)
