"""The programs of a run beside its step, lowered on shapes alone: a batch without an update, and answers to prompts.

A run that fits its step can still die in any of them. They are jitted as `engine.py` and `generate.py` jit them.
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
"""What a batch goes through without an update, by the program's name."""


def lower_forward(name: str, spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
                  shape: tuple[int, ...]) -> Any:
    """One of `FORWARD` for a batch of this shape (A, B, S), as `JaxEngine.evaluate` and `log_probs` compile it."""
    places = dict.fromkeys(batch_shapes(shape), spec.layout.batch())
    asked = spec.objective
    # A teacher that is asked for its most likely tokens has their objective.
    made = make_most_likely(asked.top_k, spec.shape.vocab_size, spec) if (
        name == "log_probs" and isinstance(asked, TopTokens)) else FORWARD[name](spec)
    jitted = jax.jit(made, in_shardings=(shardings["params"], places),
                     out_shardings=spec.layout.everywhere())
    return jitted.lower(abstract["params"], batch_shapes(shape))


def lower_generation(spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
                     size: GenerationShape, *, drawn: int) -> Any:
    """Completions of prompts, as `Generator` compiles it.

    They are greedy, or so many of each prompt are ``drawn``: then the program makes noise for every token of the
    vocabulary, too.
    The sizes are padded as `Generator` pads them; prompts are copied to all devices, parameters lie where they are.
    """
    prompts, rows, prompt, room = generation_sizes(size, spec.layout.fsdp, drawn)
    # TargetIndices come with the parameters, because `Generator` jits without input shardings.
    params = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
                          abstract["params"], shardings["params"])

    def array(size: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(size, dtype)

    jitted = jax.jit(make_generate(spec, room, drawn > 0), out_shardings=spec.layout.everywhere())
    # Two stop tokens stand for any number of them, which makes another program but only bytes of difference.
    return jitted.lower(params, array((prompts, prompt), np.int32), array((rows,), np.int32), array((), np.int32),
                        array((2,), np.int32), array((rows,), np.bool_), array((), jnp.float32),
                        array((rows,), np.uint32))


def generation_sizes(size: GenerationShape, fsdp: int, drawn: int) -> tuple[int, int, int, int]:
    """Prompts, rows, prompt slots and new slots of the program that writes so many answers.

    ``drawn``: how many of each prompt; 0: one greedy answer.
    """
    copies = largest_divisor(drawn, min(MAX_ROWS, size.prompts) // fsdp)
    prompts = padded_prompts(size.prompts // copies, copies, fsdp, MAX_ROWS)
    return prompts, prompts * copies, bucket(size.prompt_tokens), bucket(size.new_tokens)
