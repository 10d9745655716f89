"""Candidates of the search for a generation program that does not fit: answers to items, or rollouts."""

from collections.abc import Iterator

from workings.config.algorithms import RolloutAlgorithm
from workings.config.recipe import Recipe
from workings.config.rewards import OverlongReward
from workings.planning.planned_run import MAX_PROMPTS
from workings.planning.recipe_changes import KeyValues, with_changes

SHORTEST_COMPLETION = 32
"""Minimum tokens of a shortened completion."""


def fewer_answers(recipe: Recipe) -> Iterator[Recipe]:
    """Fewer prompts at a time for answers to items; neither training nor answers change."""
    prompts = min(recipe.evaluation.batch_size, MAX_PROMPTS) // 2
    while prompts >= 1:
        yield with_changes(recipe, {"evaluation.batch_size": prompts, "evaluation.samples": min(
            recipe.evaluation.samples, prompts)})
        prompts //= 2


def smaller_rollouts(recipe: Recipe, fsdp: int) -> Iterator[Recipe]:
    """Fewer updates from one rollout, each with as many completions as before.

    Only a rollout of fewer completions than an engine samples at a time needs less memory.
    """
    algorithm = recipe.algorithm
    if not isinstance(algorithm, RolloutAlgorithm):
        return
    updates, rows = algorithm.updates // 2, recipe.batch.micro_batch * recipe.batch.accumulation * fsdp
    while updates >= 1:
        # A rollout has whole groups: an advantage compares the completions of one prompt.
        if rows * updates % algorithm.group == 0:
            yield with_changes(recipe, {"algorithm.updates": updates})
        updates //= 2


def shorter_completions(recipe: Recipe) -> Iterator[Recipe]:
    """Half the new tokens, then a quarter, and so on; rows lose as many, so that prompts keep their length."""
    algorithm = recipe.algorithm
    if not isinstance(algorithm, RolloutAlgorithm):
        return
    # The penalty of long completions begins at the first token at the earliest.
    buffers = [reward.buffer for reward in recipe.rewards if isinstance(reward, OverlongReward)]
    shortest = max([SHORTEST_COMPLETION, *buffers])
    prompt_tokens, new_tokens = recipe.data.max_length - algorithm.max_new_tokens, algorithm.max_new_tokens // 2
    while new_tokens >= shortest:
        words: KeyValues = {"algorithm.max_new_tokens": new_tokens, "data.max_length": prompt_tokens + new_tokens}
        if buckets := recipe.data.named_buckets:
            words["data.buckets"] = [length for length in buckets if length <= prompt_tokens + new_tokens]
        yield with_changes(recipe, words)
        new_tokens //= 2
