"""Generate completions of items in batches, in the items' order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion
from workings.evaluation.settings import EvaluationSettings
from workings.record.digest import bytes_digest
from workings.scoring.items import Item

if TYPE_CHECKING:
    from workings.engines.base import Completion, Engine, Sampler
    from workings.engines.session import ModelSession


def generate_batch(session: "ModelSession", items: Sequence[Item],
                   settings: EvaluationSettings) -> list[UnscoredCompletion]:
    """Completions of some items, all samples of an item together.

    The text has every token of the model, including control tokens and Gemma 4's channel, except the stop token.
    """
    seeds = [sample_seed(settings.seed, item.id, sample) if settings.temperature else -1
             for item in items for sample in range(settings.samples)]
    prompt_of_item = [session.template.prompt_ids(item.prompt, item.history) for item in items]
    prompts = [prompt for prompt in prompt_of_item for _ in range(settings.samples)]
    completions: list[Completion] = []
    # Memory is planned for this batch size, and one item may have more samples.
    for start in range(0, len(prompts), settings.batch_size):
        batch = slice(start, start + settings.batch_size)
        completions += _complete(session, prompts[batch], seeds[batch], settings)
    tokenizer = session.tokenizer
    texts = [tokenizer.decode(completion.tokens) for completion in completions]
    # Tokenize again, because words may spell a control token.
    control = [session.template.forges_turns(ids) for ids in tokenizer.encode_batch(texts)]
    return [UnscoredCompletion(item=items[index // settings.samples], sample=index % settings.samples,
                               text=texts[index],
                     finish_reason=completion.finish_reason, tokens=len(completion.tokens), seed=seeds[index],
                     control_tokens=control[index])
            for index, completion in enumerate(completions)]


def _complete(session: "ModelSession", prompts: Sequence[Sequence[int]], seeds: Sequence[int],
              settings: EvaluationSettings) -> "Sequence[Completion]":
    sampler, stop_ids = session.sampler or session.engine, session.template.stop_ids
    if settings.temperature == 0:
        return sampler.generate(session.state, prompts, max_new_tokens=settings.max_new_tokens, stop_ids=stop_ids)
    return that_samples(sampler, settings.temperature).sample(
        session.state, prompts, max_new_tokens=settings.max_new_tokens, stop_ids=stop_ids,
        temperature=settings.temperature, seeds=seeds)


def that_samples(writer: "Engine | Sampler", temperature: float) -> "Sampler":
    """The engine or sampler, as a sampler. Raises `RequestError` for an engine that only answers greedily."""
    from workings.engines.base import Sampler

    if not isinstance(writer, Sampler):
        raise RequestError(f"engine {writer.name} does not sample, and the temperature is {temperature:g}",
                           "an engine that samples, or greedy decoding", "--temperature 0 --samples 1")
    return writer


def sample_seed(seed: int, item_id: str, sample: int) -> int:
    """A seed below 2**32 for one sample of one item, from SHA-256, independent of order and batch size."""
    # The id is last, because only it may contain a slash: texts are unique.
    return int(bytes_digest(f"{seed}/{sample}/{item_id}".encode())[:8], 16)
