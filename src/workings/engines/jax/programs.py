"""The programs of a run other than its step, lowered from shapes alone: forward passes and generation.

A run whose step fits in memory can still fail in any of them. They are jitted like in `engine.py` and `generate.py`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.base import GenerationShape
from workings.engines.jax.generate import MAX_ROWS, bucket, make_generate, padded_prompts
from workings.engines.jax.spec import batch_shapes
from workings.engines.jax.step import StepSpec, make_evaluation, make_log_probs
from workings.engines.jax.top_tokens import make_most_likely
from workings.engines.prefill import largest_divisor
from workings.objectives.top_tokens import TopTokens

FORWARD: dict[str, Callable[[StepSpec], Any]] = {"evaluation": make_evaluation, "log_probs": make_log_probs}
"""Programs that take a batch without updating, by name."""


def lower_forward(name: str, spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
                  shape: tuple[int, ...]) -> Any:
    """One of `FORWARD` for a batch of this shape, as `JaxEngine.evaluate` and `log_probs` compile it."""
    batch_shardings = dict.fromkeys(batch_shapes(shape), spec.layout.batch())
    objective = spec.objective
    # With this objective the teacher is asked for its most likely tokens.
    program = make_most_likely(objective.top_k, spec.shape.vocab_size, spec) if (
        name == "log_probs" and isinstance(objective, TopTokens)) else FORWARD[name](spec)
    jitted = jax.jit(program, in_shardings=(shardings["params"], batch_shardings),
                     out_shardings=spec.layout.replicated())
    return jitted.lower(abstract["params"], batch_shapes(shape))


def lower_generation(spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
                     size: GenerationShape, *, drawn: int) -> Any:
    """Completions of prompts, as `Generator` compiles it.

    Args:
        spec: of the step.
        abstract: the state as shapes and dtypes.
        shardings: of the state.
        size: padded here like in `Generator`.
        drawn: completions that are sampled of each prompt, which needs noise for every token of the vocabulary; 0:
            greedy.
    """
    prompts, rows, prompt, room = generation_sizes(size, spec.layout.row_devices, drawn)
    # Shardings come with the parameters, because `Generator` jits without input shardings.
    params = jax.tree.map(lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                          abstract["params"], shardings["params"])

    def array(size: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(size, dtype)

    jitted = jax.jit(make_generate(spec, room, drawn > 0), out_shardings=spec.layout.replicated())
    # Another number of stop tokens than these two is another program, but differs by bytes only.
    return jitted.lower(params, array((prompts, prompt), np.int32), array((rows,), np.int32), array((), np.int32),
                        array((2,), np.int32), array((rows,), np.bool_), array((), jnp.float32),
                        array((rows,), np.uint32))


def generation_sizes(size: GenerationShape, devices: int, drawn: int) -> tuple[int, int, int, int]:
    """Padded numbers of prompts, rows, prompt tokens and new tokens; ``drawn`` as in `lower_generation`.

    ``devices``: over which prompts are split.
    """
    copies = largest_divisor(drawn, min(MAX_ROWS, size.prompts) // devices)
    prompts = padded_prompts(size.prompts // copies, copies, devices, MAX_ROWS)
    return prompts, prompts * copies, bucket(size.prompt_tokens), bucket(size.new_tokens)
