"""Generation in batches with a key/value cache, compiled for few padded shapes; greedy or drawn.

Prompts are padded on the left to a power of two (one CPU: also to three quarters of one), and only prompts of the same
padded length share a batch: a row's numbers depend neither on its neighbours' lengths nor on what they answer. (On one
CPU the last bits of drawn ones do: what their neighbours answer decides when few rows go on alone.)

Where several completions of each prompt are asked for, a prompt is read once and its rings are repeated.

Shape suffixes: L layers, B rows, G prompts that are read, P padded prompt length, K heads, H head size, D width.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.base import Completion
from workings.engines.jax import cache, sampling
from workings.engines.jax.attention import plain_attention
from workings.engines.jax.flash_attention import LANES
from workings.engines.jax.layers import KeysValues, Layer, over_layers
from workings.engines.jax.model import block, decoder_layer, embed, query_scale
from workings.engines.jax.params_tree import Params
from workings.engines.jax.per_layer_embedding import per_layer_inputs
from workings.engines.jax.sharding import FSDP, P
from workings.engines.jax.step import StepSpec
from workings.engines.prefill import copies_of_each, prompts_at_a_time
from workings.errors import RequestError
from workings.models.weights import EMBEDDING

MIN_LENGTH = 16
"""Shortest padded length: shorter prompts share its program."""
MAX_ROWS = 128
"""Most rows answered at a time."""


def bucket(length: int, smallest: int = MIN_LENGTH) -> int:
    """The next power of two, at least ``smallest``."""
    return max(smallest, 1 << (length - 1).bit_length())


def padded_length(length: int, fine: bool) -> int:
    """Positions that a prompt gets; ``fine``: three quarters of a power of two, too."""
    padded = bucket(length)
    return padded * 3 // 4 if fine and padded >= 4 * MIN_LENGTH and length <= padded * 3 // 4 else padded


def _prefill(spec: StepSpec, params: Params, tokens: jax.Array,
             lengths: jax.Array) -> tuple[jax.Array, dict[str, KeysValues]]:
    """Last hidden state ``[B, D]`` of the prompts, and keys and values ``[n, B, P, K, H]`` of every stack of layers."""
    # Negative at the padding on the left, which gets segment 0: no token of the prompt sees it.
    place = jnp.arange(tokens.shape[1])[None] - (tokens.shape[1] - lengths)[:, None]
    positions, segments = jnp.maximum(place, 0), (place >= 0).astype(jnp.int32)
    attention = spec.attention if tokens.shape[1] % LANES == 0 else plain_attention  # flash takes no short rows

    def layer(layers: Sequence[int]) -> Layer:
        return decoder_layer(spec.shape, positions, segments, attention=attention, layout=spec.layout, chunks=False,
                             layers=layers)

    x = spec.layout.rows(embed(params[EMBEDDING], tokens, spec.shape, spec.compute_dtype, spec.layout))
    given, made = per_layer_inputs(params, spec.shape, tokens, x, spec.layout)
    # Keys and values of all P positions exist here for every layer, also for those that will keep a window only.
    x, kept = over_layers(params, spec.shape, x, layer, given=given, made=made, keep=True)
    return x[:, -1], kept


def _read_prompts(spec: StepSpec, params: Params, tokens: jax.Array, lengths: jax.Array,
                  room: int) -> tuple[jax.Array, cache.Caches]:
    """Last hidden state ``[B, D]`` of the prompts, and rings with room for new tokens; some prompts at a time.

    How many: `workings.engines.prefill`. Every device reads as many of its own rows as the others.
    """
    def read(tokens: jax.Array, lengths: jax.Array) -> tuple[jax.Array, cache.Caches]:
        x, kept = _prefill(spec, params, tokens, lengths)
        return x, cache.fill(spec.shape, spec.layout, kept, room)

    own = tokens.shape[0] // spec.layout.fsdp
    most = prompts_at_a_time(spec.shape, tokens.shape[1], jnp.dtype(spec.compute_dtype).itemsize)
    parts = next(parts for parts in range(1, own + 1) if own % parts == 0 and own // parts <= most)
    if parts == 1:
        return read(tokens, lengths)

    def split_rows(x: jax.Array, axis: int) -> jax.Array:
        """The axis of rows as devices, parts and rows of a part."""
        return x.reshape(*x.shape[:axis], spec.layout.fsdp, parts, -1, *x.shape[axis + 1:])

    def held(x: jax.Array, axis: int) -> jax.Array:
        """Split over the devices whose rows they are."""
        if spec.layout.size == 1:
            return x
        place = spec.layout.place(*[P.UNCONSTRAINED] * axis, FSDP, *[P.UNCONSTRAINED] * (x.ndim - axis - 1))
        return jax.lax.with_sharding_constraint(x, place)

    def merge_rows(x: jax.Array, axis: int) -> jax.Array:
        return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 3:])

    def one(part: jax.Array, buffers: Any) -> Any:
        rows = (jax.lax.dynamic_slice_in_dim(split_rows(x, 0), part, 1, 1) for x in (tokens, lengths))
        x, rings = read(*(merge_rows(x, 0) for x in rows))

        def put(buffer: jax.Array, mine: jax.Array, axis: int) -> jax.Array:
            mine = mine.reshape(*buffer.shape[:axis + 1], 1, *buffer.shape[axis + 2:])
            return held(jax.lax.dynamic_update_slice_in_dim(buffer, mine, part, axis + 1), axis)

        return put(buffers[0], x, 0), jax.tree.map(partial(put, axis=1), buffers[1], rings)

    # Written in place into rings of all rows: stacked parts would be the cache once more.
    x, rings = jax.eval_shape(read, tokens, lengths)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (x, rings))
    buffers = held(split_rows(empty[0], 0), 0), jax.tree.map(lambda x: held(split_rows(x, 1), 1), empty[1])
    x, rings = jax.lax.fori_loop(0, parts, one, buffers)
    return merge_rows(x, 0), jax.tree.map(partial(merge_rows, axis=1), rings)


def _decode(spec: StepSpec, params: Params, token: jax.Array, position: jax.Array, count: jax.Array,
            caches: cache.Caches) -> tuple[jax.Array, cache.Caches]:
    """Hidden state ``[B, D]`` of new token number ``count`` of every row, and the caches with it."""
    def layer(layers: Sequence[int]) -> Layer:
        attend = cache.attend_cached(spec.shape, caches, position, count, query_scale(spec.shape), layers)
        return lambda x, xs: block(x, xs[0], position[:, None], spec.shape, attend, xs[1], spec.layout, layers[0])

    x = embed(params[EMBEDDING], token[:, None], spec.shape, spec.compute_dtype, spec.layout)
    given, made = per_layer_inputs(params, spec.shape, token[:, None], x, spec.layout)
    # The scan only reads the rings and gives out one token's keys and values; they are written once, after it.
    x, kept = over_layers(params, spec.shape, x, layer, made=made, keep=True,
                          given={**given, "index": jnp.asarray(cache.index_in_kind(spec.shape))})
    return x[:, 0], cache.put(spec.shape, caches, kept, count)


Written = tuple[jax.Array, ...]
"""``[B, room]`` tokens; of drawn ones also their log probabilities, float32."""
Pick = Callable[[jax.Array, jax.Array], Written]
"""``(hidden states [B, D], number of the new token) -> [B]`` tokens, and what `Written` has beside them."""
Going = tuple[jax.Array, Written, jax.Array, Written, cache.Caches]
"""Answers that are being written: tokens so far, the next ones, which rows are done, what is written, the caches."""


def begin(spec: StepSpec, params: Params, tokens: jax.Array, lengths: jax.Array, real: jax.Array, room: int,
          pick: Pick) -> Going:
    """Prompts ``[G, P]`` that are read, with nothing written yet; ``lengths`` and ``real`` are those of all B rows."""
    copies = lengths.shape[0] // tokens.shape[0]
    x, caches = _read_prompts(spec, params, tokens, lengths[::copies], room)
    x, caches = jnp.repeat(x, copies, 0), cache.repeat(spec.layout, caches, copies)
    # The prompt alone gives new token 0, so room for n tokens takes n - 1 steps that count.
    first = pick(x, jnp.int32(0))
    empty = tuple(jnp.zeros((lengths.shape[0], room), x.dtype) for x in first)
    return jnp.int32(0), first, ~real, empty, caches


def go_on(spec: StepSpec, params: Params, lengths: jax.Array, limit: jax.Array, stop_ids: jax.Array, pick: Pick,
          going: Going, unended: int = 0) -> Going:
    """Write until at most so many rows are ``unended``, or until they have ``limit`` tokens."""
    def unfinished(going: Going) -> jax.Array:
        return (going[0] < limit) & (jnp.sum(~going[2]) > unended)

    def one(going: Going) -> Going:
        count, picked, done, out, caches = going
        out = tuple(jax.lax.dynamic_update_slice(before, jnp.where(done, 0, x)[:, None], (0, count))
                    for before, x in zip(out, picked, strict=True))
        # Rows that have ended are computed on with the others, because a program has fixed shapes.
        done = done | jnp.isin(picked[0], stop_ids)
        # The last turn computes a token that nobody reads: one step of decoding, for a loop without a branch.
        x, caches = _decode(spec, params, picked[0], lengths + count, count, caches)
        return count + 1, pick(x, count + 1), done, out, caches

    end: Going = jax.lax.while_loop(unfinished, one, going)
    return end


def make_generate(spec: StepSpec, room: int, drawn: bool) -> Callable[..., Written]:
    """``(params, tokens_GP, lengths_B, limit, stop_ids, real_B, temperature, seeds_B) -> Written``.

    The same number of rows next to each other, B / G, continue each prompt.
    A row holds 0 after its end. The loop ends when every row has written a stop token or ``limit`` tokens; rows that
    are not ``real`` are padding. ``temperature`` and ``seeds`` count only where tokens are ``drawn``.
    """
    def generate(params: Params, tokens: jax.Array, lengths: jax.Array, limit: jax.Array, stop_ids: jax.Array,
                 real: jax.Array, temperature: jax.Array, seeds: jax.Array) -> Written:
        def pick(x: jax.Array, count: jax.Array, seeds: jax.Array = seeds) -> Written:
            logits = sampling.next_logits(spec, params, x)
            return sampling.draw(spec, logits, temperature, seeds, count) if drawn else (sampling.greedy(logits),)

        begun = begin(spec, params, tokens, lengths, real, room, pick)
        last = spec.variant.last_rows
        if not drawn or not 0 < last < lengths.shape[0]:
            return go_on(spec, params, lengths, limit, stop_ids, pick, begun)[3]
        count, picked, done, out, caches = go_on(spec, params, lengths, limit, stop_ids, pick, begun, last)
        rows = jnp.argsort(done, stable=True)[:last]  # those that have not ended come first
        picked, done, kept = jax.tree.map(lambda x: x[rows], (picked, done, out))
        caches = jax.tree.map(lambda x: jnp.take(x, rows, 1), caches)
        end = go_on(spec, params, lengths[rows], limit, stop_ids, partial(pick, seeds=seeds[rows]),
                    (count, picked, done, kept, caches))
        return tuple(all_rows.at[rows].set(x) for all_rows, x in zip(out, end[3], strict=True))

    return generate


@dataclass(frozen=True)
class PromptBatch:
    """Prompts of the same padded length: what one call of the compiled program gets."""

    indices: list[int]
    """Of the prompts that its rows continue; rows behind them are padding."""
    tokens: np.ndarray
    """``[G, P]``: a prompt once for all rows that continue it."""
    lengths: np.ndarray
    """``[B]`` of the rows' prompts."""
    real: np.ndarray
    """``[B]``: rows that are no padding."""

    def seeds(self, given: Sequence[int]) -> np.ndarray:
        """``[B]`` uint32: the rows' own seeds."""
        padded_seeds = np.zeros(len(self.real), np.uint32)
        padded_seeds[:len(self.indices)] = [given[i] for i in self.indices]
        return padded_seeds


def prompt_batches(prompts: Sequence[Sequence[int]], rows_multiple: int = 1,
                   most_rows: int = MAX_ROWS, *, fine: bool = False, copies: int = 1) -> list[PromptBatch]:
    """Prompts by padded length, in batches of at most ``most_rows`` rows.

    ``rows_multiple``: the number of prompts is a multiple of it (devices that share the rows). ``fine``: see
    `padded_length`. ``copies``: so many equal prompts stand next to each other, and stay together.
    """
    by_length: dict[int, list[int]] = {}
    for i in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
        by_length.setdefault(padded_length(len(prompts[i]), fine), []).append(i)
    most = most_prompts(copies, rows_multiple, most_rows) * copies
    return [_padded(prompts, together[start:start + most], padded, rows_multiple, copies, most_rows)
            for padded, together in by_length.items() for start in range(0, len(together), most)]


def most_prompts(copies: int, multiple: int, most_rows: int) -> int:
    """Prompts with so many copies that fill a batch; devices that share them get equally many, and one at least."""
    return most_rows if copies == 1 else max(1, most_rows // copies // multiple) * multiple


def padded_prompts(count: int, copies: int, multiple: int, most_rows: int) -> int:
    """How many prompts a program reads for ``count`` of them: a power of two where that is not too many."""
    # Few shapes, so few programs.
    padded = -(-bucket(count, -(-8 // copies)) // multiple) * multiple
    return padded if copies == 1 else min(padded, most_prompts(copies, multiple, most_rows))


def _padded(prompts: Sequence[Sequence[int]], indices: list[int], padded: int, rows_multiple: int, copies: int,
            most_rows: int) -> PromptBatch:
    count = padded_prompts(len(indices) // copies, copies, rows_multiple, most_rows)
    tokens = np.zeros((count, padded), np.int32)
    # A row that is padding has one token of its own to look at.
    lengths = np.ones(count, np.int32)
    for row, i in enumerate(indices[::copies]):
        tokens[row, padded - len(prompts[i]):] = prompts[i]
        lengths[row] = len(prompts[i])
    return PromptBatch(indices, tokens, np.repeat(lengths, copies), np.arange(count * copies) < len(indices))


class Generator:
    """Answers prompts; keeps what it has compiled (one program per padded length, prompts, rows and room)."""

    def __init__(self, spec: StepSpec) -> None:
        self.spec = spec
        self._programs: dict[tuple[int, bool], Any] = {}
        self._compiled: set[tuple[int, ...]] = set()

    def answer(self, params: Params, prompts: Sequence[Sequence[int]], max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float = 0.0, seeds: Sequence[int] | None = None) -> list[Completion]:
        """One completion per prompt, in the order given; greedy without ``seeds``.

        Raises:
            RequestError: an empty prompt, or seeds or a temperature that cannot be drawn with.
        """
        check_prompts(prompts)
        if seeds is not None:
            _check_drawing(prompts, temperature, seeds)
        # The room is a power of two and the limit an argument: another limit within the room compiles nothing.
        room, drawn = bucket(max_new_tokens), seeds is not None
        if (room, drawn) not in self._programs:
            self._programs[room, drawn] = jax.jit(make_generate(self.spec, room, drawn),
                                                  out_shardings=self.spec.layout.everywhere())
        program, stops = self._programs[room, drawn], stop_array(stop_ids)

        def run(rows: PromptBatch) -> list[Completion]:
            written = program(params, rows.tokens, rows.lengths, np.int32(max_new_tokens), stops, rows.real,
                              np.float32(temperature), rows.seeds(seeds or [0] * len(prompts)))
            by_row = zip(*(np.asarray(x)[:, :max_new_tokens].tolist() for x in written), strict=True)
            return [Completion.of(row[0], stop_ids, *row[1:]) for row in by_row]

        at_once, fsdp = self.spec.variant.generation_batches, self.spec.layout.fsdp
        most = MAX_ROWS // at_once
        # At least as many prompts as devices, each of which reads its own.
        copies = copies_of_each(prompts, min(most, len(prompts)) // fsdp) if drawn else 1
        batches = prompt_batches(prompts, fsdp, most, fine=self.spec.variant.fine_prompt_lengths, copies=copies)
        completions: dict[int, list[Completion]] = {}
        for number, rows in enumerate(batches):  # the first of a shape alone: its program is compiled once
            shape = (room, drawn, stops.size, *rows.tokens.shape, rows.real.size)
            if shape not in self._compiled:
                completions[number] = run(rows)
                self._compiled.add(shape)
        waiting = [number for number in reversed(range(len(batches))) if number not in completions]  # the longest first
        # JAX lets go of the interpreter while a program runs, so threads compute side by side.
        with ThreadPoolExecutor(at_once) as pool:
            completions |= zip(waiting, pool.map(run, [batches[number] for number in waiting]), strict=True)
        answers: list[Completion] = [Completion(tokens=[], finish_reason="length")] * len(prompts)
        for number, rows in enumerate(batches):
            for i, completion in zip(rows.indices, completions[number], strict=False):  # the others are padding
                answers[i] = completion
        return answers


def stop_array(stop_ids: Sequence[int]) -> np.ndarray:
    """Stop tokens as a compiled program takes them."""
    # -1 is no token: without stop tokens the array has an element that nothing equals.
    return np.array([*stop_ids] or [-1], np.int32)


def check_prompts(prompts: Sequence[Sequence[int]]) -> None:
    """Raises `RequestError` for an empty one."""
    if any(len(prompt) == 0 for prompt in prompts):
        raise RequestError("an empty prompt", "prompts of at least one token")


def _check_drawing(prompts: Sequence[Sequence[int]], temperature: float, seeds: Sequence[int]) -> None:
    if temperature <= 0:
        raise RequestError(f"temperature {temperature:g} for drawn completions", "above 0, or greedy decoding")
    if len(seeds) != len(prompts) or not all(0 <= seed < 2 ** 32 for seed in seeds):
        raise RequestError(f"{len(seeds)} seeds for {len(prompts)} prompts", "one per prompt, each below 2 ** 32")
