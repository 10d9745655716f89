"""Which sampler writes the completions of a run: the engine itself, or another program.

A program with its own weights, such as a server for generation, takes those of ``state`` over whenever it is given
another state than at the call before.
"""

from workings.config.recipe import Recipe
from workings.engines.base import Engine, Sampler


def sampler_of(recipe: Recipe, engine: Engine) -> Sampler | None:
    """What writes the completions of a run; None if its engine only answers greedily.

    Args:
        recipe: of the run.
        engine: opened, of the model that is trained.
    """
    del recipe  # no key names another one yet
    return engine if isinstance(engine, Sampler) else None
