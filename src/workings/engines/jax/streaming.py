"""Streaming of one greedy completion: the loop of `generate`, which returns to the host after each token."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from workings.engines.base import Completion
from workings.engines.jax import sampling
from workings.engines.jax.generate import (
    DecodeState,
    GeneratedTokens,
    bucket,
    check_prompts,
    decode_until,
    prompt_batches,
    start_decoding,
    stop_array,
)
from workings.engines.jax.params_tree import Params
from workings.engines.jax.step import StepSpec


class Streamer:
    """Generates one completion at a time; keeps its compiled programs, two for each padded length and room."""

    def __init__(self, spec: StepSpec) -> None:
        self._spec = spec
        self._programs: dict[int, tuple[Any, Any]] = {}

    def answer(self, params: Params, prompt: Sequence[int], max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> Completion:
        """The tokens of `workings.engines.jax.generate.Generator.answer`; ``tell`` is called with each.

        Raises:
            RequestError: an empty prompt.
        """
        check_prompts([prompt])
        room = bucket(max_new_tokens)
        if room not in self._programs:
            self._programs[room] = self._compiled(room)
        first, following = self._programs[room]
        # Padded as in `generate`, which makes few programs and the same numbers.
        rows = prompt_batches([prompt], self._spec.layout.row_devices)[0]
        stops, written = stop_array(stop_ids), list[int]()
        state = first(params, rows.tokens, rows.lengths, rows.real)
        for limit in range(1, max_new_tokens + 1):
            # Already picked, so it is passed on before the token after it is computed.
            written.append(int(np.asarray(state.next_tokens[0])[0]))
            # The stop token itself is no text, so it is not passed on.
            if written[-1] in stop_ids:
                break
            tell(written[-1])
            if limit < max_new_tokens:
                # The loop stops after this one token; the limit is an argument, so all tokens share a program.
                state = following(params, rows.lengths, np.int32(limit), stops, state)
        return Completion.of(written, stop_ids)

    def _compiled(self, room: int) -> tuple[Any, Any]:
        def pick(params: Params, x: jax.Array, count: jax.Array) -> GeneratedTokens:
            return (sampling.greedy(sampling.next_logits(self._spec, params, x)),)

        def first(params: Params, tokens: jax.Array, lengths: jax.Array, real: jax.Array) -> DecodeState:
            return start_decoding(self._spec, params, tokens, lengths, real, room, partial(pick, params))

        def following(params: Params, lengths: jax.Array, limit: jax.Array, stop_ids: jax.Array,
                      state: DecodeState) -> DecodeState:
            return decode_until(self._spec, params, lengths, limit, stop_ids, partial(pick, params), state)

        # The cache is given away and written in place: a copy of it for each token would cost more than the token.
        return jax.jit(first), jax.jit(following, donate_argnums=4)
