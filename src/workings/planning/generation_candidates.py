"""Candidates of the search where new tokens are what does not fit: answers to items, or completions to learn from."""

from collections.abc import Iterator

from workings.config.algorithms import RolloutAlgorithm
from workings.config.recipe import Recipe
from workings.config.rewards import OverlongReward
from workings.planning.planned_run import MAX_PROMPTS
from workings.planning.recipe_changes import Words, with_changes

SHORTEST_COMPLETION = 32
"""Tokens below which no completion is cut."""


def fewer_answers(recipe: Recipe) -> Iterator[Recipe]:
    """Fewer prompts at a time, where answering is what does not fit: training stays as it is, answers too."""
    prompts = min(recipe.evaluation.batch_size, MAX_PROMPTS) // 2
    while prompts >= 1:
        yield with_changes(recipe, {"evaluation.batch_size": prompts, "evaluation.samples": min(
            recipe.evaluation.samples, prompts)})
        prompts //= 2


def smaller_rollouts(recipe: Recipe, fsdp: int) -> Iterator[Recipe]:
    """Fewer updates from one rollout: each of them learns from as many completions as before.

    Only a rollout of fewer completions than an engine draws at a time needs less memory.
    """
    algorithm = recipe.algorithm
    if not isinstance(algorithm, RolloutAlgorithm):
        return
    updates, rows = algorithm.updates // 2, recipe.batch.micro_batch * recipe.batch.accumulation * fsdp
    while updates >= 1:
        if rows * updates % algorithm.group == 0:
            yield with_changes(recipe, {"algorithm.updates": updates})
        updates //= 2


def shorter_completions(recipe: Recipe) -> Iterator[Recipe]:
    """Half the new tokens, and again; rows lose as many, so that prompts keep their room."""
    algorithm = recipe.algorithm
    if not isinstance(algorithm, RolloutAlgorithm):
        return
    # Where long completions are punished, that begins at the first token at the earliest.
    buffers = [each.buffer for each in recipe.rewards if isinstance(each, OverlongReward)]
    shortest = max([SHORTEST_COMPLETION, *buffers])
    prompt, new = recipe.data.max_length - algorithm.max_new_tokens, algorithm.max_new_tokens // 2
    while new >= shortest:
        words: Words = {"algorithm.max_new_tokens": new, "data.max_length": prompt + new}
        if recipe.data.buckets:
            words["data.buckets"] = [length for length in recipe.data.buckets if length <= prompt + new]
        yield with_changes(recipe, words)
        new //= 2
