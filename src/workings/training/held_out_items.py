"""Held-out items that a model answers during reinforcement learning: they show what it learns beyond its rewards.

They are answered greedily and scored by the recipe's `evaluation.scorer` in the scoring process, with any rewards
are. Nothing is trained on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workings.engines.base import Engine, Sampler, State
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.metrics import RIGHT, WRONG
from workings.scoring.items import Item
from workings.scoring.judge import Judgement


class CompletionScorer(Protocol):
    """Scores completions: `workings.scoring.worker_pool.ScoringProcess`."""

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """Judgements in the order given."""
        ...


@dataclass(frozen=True, kw_only=True)
class HeldOutItems:
    """Items, and how they are answered and scored: a function of the weights alone, so resumed runs agree."""

    sampler: Engine | Sampler
    items: Sequence[Item]
    tokenizer: Tokenizer
    template: ChatTemplate
    max_new_tokens: int
    batch_size: int
    """Items that are answered at a time."""
    scorer: CompletionScorer

    def evaluate(self, state: State) -> dict[str, Any]:
        """Fields for a metrics line.

        `held_out_score`, the share of right answers; `held_out_items`, their number; `held_out_right`, for each item in
        order `1` if its answer was right, else `0`. An answer that cannot be scored is wrong.
        """
        marks = ""
        # As many at a time as after training: the plan counted this batch size.
        for start in range(0, len(self.items), self.batch_size):
            items = self.items[start:start + self.batch_size]
            completions = self.sampler.generate(
                state, [self.template.prompt_ids(item.prompt, item.history) for item in items],
                max_new_tokens=self.max_new_tokens, stop_ids=self.template.stop_ids)
            judgements = self.scorer.judge([
                (item, self.tokenizer.decode(completion.tokens), completion.stop_token is None)
                for item, completion in zip(items, completions, strict=True)])
            marks += "".join(RIGHT if judgement.score == 1 else WRONG for judgement in judgements)
        return {"held_out_score": marks.count(RIGHT) / len(marks), "held_out_items": len(marks),
                "held_out_right": marks}
