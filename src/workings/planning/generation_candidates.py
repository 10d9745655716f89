"""Candidates of the search for answers to items that do not fit."""

from collections.abc import Iterator

from workings.config.recipe import Recipe
from workings.planning.planned_run import MAX_PROMPTS
from workings.planning.recipe_changes import with_changes


def fewer_answers(recipe: Recipe) -> Iterator[Recipe]:
    """Fewer prompts at a time for answers to items; neither training nor answers change."""
    prompts = min(recipe.evaluation.batch_size, MAX_PROMPTS) // 2
    while prompts >= 1:
        yield with_changes(recipe, {"evaluation.batch_size": prompts, "evaluation.samples": min(
            recipe.evaluation.samples, prompts)})
        prompts //= 2
