"""Asking a model: items in batches through an engine, in the items' order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workings.errors import RequestError
from workings.evaluation.predictions import Answered
from workings.evaluation.settings import EvaluationSettings
from workings.record.digest import bytes_digest
from workings.scoring.items import Item

if TYPE_CHECKING:
    from workings.engines.base import Engine, SamplingEngine
    from workings.engines.session import ModelSession


def generate_batch(session: "ModelSession", items: Sequence[Item], settings: EvaluationSettings) -> list[Answered]:
    """Completions of some items, all samples of an item together.

    The text keeps every token that the model wrote, control tokens included; only the stop token is left out.
    """
    engine, template = session.engine, session.template
    prompts = [template.prompt_ids(item.prompt) for item in items for _ in range(settings.samples)]
    if settings.temperature == 0:
        completions = engine.generate(session.state, prompts, max_new_tokens=settings.max_new_tokens,
                                      stop_ids=template.stop_ids)
    else:
        sampling = sampling_engine(engine, settings.temperature)
        seeds = [sample_seed(settings.seed, item.id, sample) for item in items for sample in range(settings.samples)]
        completions = sampling.sample(
            session.state, prompts, max_new_tokens=settings.max_new_tokens, stop_ids=template.stop_ids,
            temperature=settings.temperature, seeds=seeds)
    return [Answered(item=items[index // settings.samples], sample=index % settings.samples,
                     text=session.tokenizer.decode(completion.tokens), finish_reason=completion.finish_reason,
                     tokens=len(completion.tokens))
            for index, completion in enumerate(completions)]


def sampling_engine(engine: "Engine", temperature: float) -> "SamplingEngine":
    """The engine, as one that draws. Raises `RequestError` where it only answers greedily."""
    from workings.engines.base import SamplingEngine

    if not isinstance(engine, SamplingEngine):
        raise RequestError(f"temperature {temperature:g} with engine {engine.name}, which does not sample",
                           "an engine that samples, or greedy decoding", "--temperature 0 --samples 1")
    return engine


def sample_seed(seed: int, item_id: str, sample: int) -> int:
    """A number below 2**32 for one sample of one item, from SHA-256: neither order nor batch size changes it."""
    return int(bytes_digest(f"{seed}/{sample}/{item_id}".encode())[:8], 16)
