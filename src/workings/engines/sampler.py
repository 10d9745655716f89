"""The sampler that an engine plays itself. A recipe with a `sampler` has another program write its rollouts."""

from workings.engines.base import Engine, Sampler


def sampler_of(engine: Engine) -> Sampler | None:
    """The engine as the sampler of its completions; None if it only answers greedily.

    Args:
        engine: opened, of the model that is trained.
    """
    return engine if isinstance(engine, Sampler) else None
