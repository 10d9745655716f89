"""Asking a model: items in batches through an engine, in the items' order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workings.evaluation.items import Item
from workings.evaluation.predictions import Answered
from workings.evaluation.settings import EvaluationSettings

if TYPE_CHECKING:
    from workings.engines.base import Engine, State
    from workings.models.chat import ChatTemplate
    from workings.models.tokenizer import Tokenizer


def generate_batch(engine: "Engine", state: "State", tokenizer: "Tokenizer", template: "ChatTemplate",
                   items: Sequence[Item], settings: EvaluationSettings) -> list[Answered]:
    """Completions of some items, all samples of an item together.

    The text keeps every token that the model wrote, control tokens included; only the stop token is left out.
    """
    prompts = [template.prompt_ids(item.prompt) for item in items for _ in range(settings.samples)]
    completions = engine.generate(state, prompts, max_new_tokens=settings.max_new_tokens, stop_ids=template.stop_ids)
    return [Answered(item=items[index // settings.samples], sample=index % settings.samples,
                     text=tokenizer.decode(completion.tokens), finish_reason=completion.finish_reason,
                     tokens=len(completion.tokens))
            for index, completion in enumerate(completions)]
