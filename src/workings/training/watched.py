"""Held-out items that a model answers while it learns from rewards: what it is not rewarded for shows what it learns.

They are answered greedily and scored by the scorer `answer` in the scoring process, whatever the rewards are. Nothing
is learned from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workings.engines.base import Engine, State
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.scoring.items import Item
from workings.scoring.judge import Judgement

RIGHT, WRONG = "1", "0"
"""An item's mark in `held_out_right`."""


class Judge(Protocol):
    """Scores completions: `workings.scoring.process.ScoringProcess`."""

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """Judgements in the order given."""
        ...


@dataclass(frozen=True, kw_only=True)
class WatchedItems:
    """Items, and how they are asked and scored: a function of the weights alone, so a resumed run sees the same."""

    engine: Engine
    items: Sequence[Item]
    tokenizer: Tokenizer
    template: ChatTemplate
    max_new_tokens: int
    batch_size: int
    """Items that are answered at a time."""
    judge: Judge

    def look(self, state: State) -> dict[str, Any]:
        """Fields for a line of metrics.

        `held_out_score`, the share of right answers; `held_out_items`, how many were asked; `held_out_right`, of each
        in their order `1` where it was right, else `0`. An answer that cannot be scored is wrong.
        """
        marks = ""
        # As many at a time as after training: that is what the plan counted as answering.
        for start in range(0, len(self.items), self.batch_size):
            some = self.items[start:start + self.batch_size]
            completions = self.engine.generate(
                state, [self.template.prompt_ids(item.prompt, item.history) for item in some],
                max_new_tokens=self.max_new_tokens, stop_ids=self.template.stop_ids)
            judged = self.judge.judge([(item, self.tokenizer.decode(completion.tokens), completion.stop_token is None)
                                       for item, completion in zip(some, completions, strict=True)])
            marks += "".join(RIGHT if judgement.score == 1 else WRONG for judgement in judged)
        return {"held_out_score": marks.count(RIGHT) / len(marks), "held_out_items": len(marks),
                "held_out_right": marks}
