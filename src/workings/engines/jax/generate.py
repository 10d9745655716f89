"""Generates completions in batches with a key/value cache, greedy or sampled.

Prompts are padded on the left to a power of two, so that few programs are compiled. Only prompts of the same padded
length share a batch, so a completion does not depend on the other prompts of its batch. If several completions of one
prompt are sampled, the prompt is read once and its cache is repeated.
A program generates up to ``capacity`` new tokens for each row, which is a power of two.

Shape suffixes: n layers, B rows, G prompts, P padded prompt length, K heads, H head size, D width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.base import Completion
from workings.engines.jax import cache, model
from workings.engines.jax.attention import plain_attention
from workings.engines.jax.flash_attention import LANES
from workings.engines.jax.layers import KeysValues, Layer, LayerScan
from workings.engines.jax.params_tree import Params
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.engines.jax.spec import abstract_state, bytes_on_device, state_shardings
from workings.engines.jax.step import StepSpec
from workings.engines.prefill import (
    MAX_PROMPTS,
    cached_numbers,
    check_prompts,
    check_sampling,
    copies_of_each,
    keeps_gathered_layers,
    prompts_at_a_time,
)
from workings.models.family import EMBEDDING

MIN_LENGTH = 16
"""Shortest padded length."""


def bucket(length: int, smallest: int = MIN_LENGTH) -> int:
    """The next power of two, at least ``smallest``."""
    return max(smallest, 1 << (length - 1).bit_length())


def _prefill(spec: StepSpec, params: Params, tokens: jax.Array,
             lengths: jax.Array) -> tuple[jax.Array, dict[str, KeysValues]]:
    """Last hidden state ``[G, D]`` of the prompts, and keys and values ``[n, G, P, K, H]`` of every stack of layers."""
    # Negative in the padding, which is a segment of its own.
    from_first = jnp.arange(tokens.shape[1])[None] - (tokens.shape[1] - lengths)[:, None]
    positions, segments = jnp.maximum(from_first, 0), (from_first >= 0).astype(jnp.int32)
    attention = spec.attention if tokens.shape[1] % LANES == 0 else plain_attention  # flash needs multiples of LANES
    x, kv_by_stack = model.run_layers(params, spec.shape, tokens, positions, segments, attention=attention,
                                      dtype=spec.compute_dtype, layout=spec.layout, keep_kv=True)
    return x[:, -1], kv_by_stack


@dataclass(frozen=True)
class _Parts:
    """Splits the axis of the prompts into ``[devices, parts, rows]``: each device reads some prompts of each part.

    Of prompts 0 to 7 on two devices, the first of two parts has 0, 1, 4 and 5. ``axis``: of the prompts in an array.
    """

    layout: Layout
    count: int

    def split(self, x: jax.Array, axis: int) -> jax.Array:
        return x.reshape(*x.shape[:axis], self.layout.shape.row_devices, self.count, -1, *x.shape[axis + 1:])

    def merge(self, x: jax.Array, axis: int) -> jax.Array:
        return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 3:])

    def shard(self, x: jax.Array, axis: int) -> jax.Array:
        """Keep rows on their devices; the compiler chooses the sharding of the other axes."""
        free = [P.UNCONSTRAINED] * x.ndim
        return self.layout.constrain(x, *free[:axis], self.layout.row_axes, *free[axis + 1:])

    def read(self, x: jax.Array, part: jax.Array) -> jax.Array:
        """The prompts of one part of an array ``[G, ...]``."""
        return self.merge(jax.lax.dynamic_slice_in_dim(self.split(x, 0), part, 1, 1), 0)

    def write(self, buffer: jax.Array, x: jax.Array, part: jax.Array, axis: int) -> jax.Array:
        """A split array with the prompts x of one part."""
        rows = x.reshape(*buffer.shape[:axis + 1], 1, *buffer.shape[axis + 2:])
        return self.shard(jax.lax.dynamic_update_slice_in_dim(buffer, rows, part, axis + 1), axis)


def _prefill_in_parts(spec: StepSpec, params: Params, tokens: jax.Array, lengths: jax.Array,
                      capacity: int) -> tuple[jax.Array, cache.Caches]:
    """Last hidden state ``[G, D]`` of the prompts, and caches for them and for new tokens.

    Prompts are read in the fewest equal parts that are small enough (`workings.engines.prefill`), one after the other.
    """
    layout = spec.layout
    rows = tokens.shape[0] // layout.shape.row_devices
    most_rows = prompts_at_a_time(spec.shape, tokens.shape[1], jnp.dtype(spec.compute_dtype).itemsize)
    parts = _Parts(layout, next(n for n in range(1, rows + 1) if rows % n == 0 and rows // n <= most_rows))
    by_head = parts.count > 1 and cache.fills_by_head(layout)

    def prefill(tokens: jax.Array, lengths: jax.Array) -> tuple[jax.Array, cache.Caches]:
        hidden, kv_by_stack = _prefill(spec, params, tokens, lengths)
        caches = cache.from_prompts(spec.shape, layout, kv_by_stack, capacity)
        return hidden, cache.by_head(caches) if by_head else caches

    if parts.count == 1:
        return prefill(tokens, lengths)

    def prefill_part(part: jax.Array, so_far: tuple[jax.Array, cache.Caches]) -> tuple[jax.Array, cache.Caches]:
        all_hidden, all_caches = so_far
        hidden, caches = prefill(parts.read(tokens, part), parts.read(lengths, part))
        return (parts.write(all_hidden, hidden, part, 0),
                jax.tree.map(lambda buffer, x: parts.write(buffer, x, part, 1), all_caches, caches))

    # Each part is written into the caches of all rows in place, so that these exist once.
    hidden, caches = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(prefill, tokens, lengths))
    empty = parts.shard(parts.split(hidden, 0), 0), jax.tree.map(lambda x: parts.shard(parts.split(x, 1), 1), caches)
    all_hidden, all_caches = jax.lax.fori_loop(0, parts.count, prefill_part, empty)
    merged = jax.tree.map(lambda x: parts.merge(x, 1), all_caches)
    return parts.merge(all_hidden, 0), cache.by_position(merged) if by_head else merged


def _decode(spec: StepSpec, params: Params, token: jax.Array, position: jax.Array, count: jax.Array,
            caches: cache.Caches) -> tuple[jax.Array, cache.Caches]:
    """Hidden state ``[B, D]`` of new token number ``count`` of every row, and the caches with it."""
    embedded = model.embed(params[EMBEDDING], token[:, None], spec.shape, spec.compute_dtype, spec.layout)
    inputs, transform = model.per_layer_inputs(params, spec.shape, token[:, None], embedded, spec.layout)
    index = jnp.asarray(cache.index_in_kind(spec.shape))

    def make_layer(layers: Sequence[int]) -> Layer:
        attend = cache.attend_cached(spec.shape, caches, position, count, model.query_scale(spec.shape), layers)
        return lambda x, xs: model.block(x, xs[0], position[:, None], spec.shape, attend, transform(xs[1]),
                                         spec.layout, layers[0])

    # The scan reads the caches and returns the token's keys and values, which are written after it.
    scan = LayerScan(spec.shape, make_layer, {**inputs, "index": index}, keep_kv=True)
    x, kv_by_stack = scan.run(params, embedded)
    return x[:, 0], cache.append(spec.shape, spec.layout, caches, kv_by_stack, count)


class GeneratedTokens(NamedTuple):
    """New tokens of all rows (int32); if they are sampled also their log probabilities (float32)."""

    tokens: jax.Array
    log_probs: jax.Array | None = None


PickToken = Callable[[Params, jax.Array, jax.Array], GeneratedTokens]
"""``(params, hidden states [B, D], number of the new token) -> [B]`` `GeneratedTokens`."""


class DecodeState(NamedTuple):
    """Completions while they are generated, between two steps of decoding."""

    step: jax.Array
    """Scalar int32: number of written tokens of each row."""
    next_tokens: GeneratedTokens
    """``[B]``: picked, and not yet written."""
    finished: jax.Array
    """``[B]`` bool: rows that have ended, and padding."""
    written: GeneratedTokens
    """``[B, capacity]``: 0 after a row's end."""
    caches: cache.Caches
    """Keys and values of the prompts and of the written tokens."""


def start_decoding(spec: StepSpec, capacity: int, pick: PickToken, params: Params, tokens: jax.Array,
                   lengths: jax.Array, real: jax.Array) -> DecodeState:
    """The state after the prompts are read: the first token of each row is picked, and none is written.

    ``tokens`` ``[G, P]``: prompts, padded on the left; each is continued by B / G rows, which follow each other;
    ``lengths`` ``[B]``: of the rows' prompts; ``real`` ``[B]`` bool: rows that are not padding.
    """
    rows = lengths.shape[0]
    copies = rows // tokens.shape[0]
    of_prompts, prompt_caches = _prefill_in_parts(spec, params, tokens, lengths[::copies], capacity)
    hidden, caches = jnp.repeat(of_prompts, copies, 0), cache.repeat_rows(spec.layout, prompt_caches, copies)
    first = pick(params, hidden, jnp.int32(0))
    written = jax.tree.map(lambda x: jnp.zeros((rows, capacity), x.dtype), first)
    return DecodeState(jnp.int32(0), first, ~real, written, caches)


def decode_until(spec: StepSpec, pick: PickToken, params: Params, lengths: jax.Array, limit: jax.Array,
                 stop_ids: jax.Array, state: DecodeState) -> DecodeState:
    """Generate until all rows are finished or have ``limit`` tokens."""
    def goes_on(state: DecodeState) -> jax.Array:
        return (state.step < limit) & ~jnp.all(state.finished)

    def decode_token(state: DecodeState) -> DecodeState:
        count, token = state.step, state.next_tokens.tokens

        def write(buffer: jax.Array, x: jax.Array) -> jax.Array:
            return jax.lax.dynamic_update_slice(buffer, jnp.where(state.finished, 0, x)[:, None], (0, count))

        # The stop token itself is written, too.
        written = jax.tree.map(write, state.written, state.next_tokens)
        finished = state.finished | jnp.isin(token, stop_ids)
        hidden, caches = _decode(spec, params, token, lengths + count, count, state.caches)
        return DecodeState(count + 1, pick(params, hidden, count + 1), finished, written, caches)

    end: DecodeState = jax.lax.while_loop(goes_on, decode_token, state)
    return end


def next_logits(spec: StepSpec, params: Params, x: jax.Array) -> jax.Array:
    """``[B, V]`` float32 logits of hidden states ``[B, D]``, split like the vocabulary over the devices."""
    hidden, head = model.final_norm(x, params, spec.shape), model.unembedding(params)
    if not spec.layout.splits_vocabulary(head.shape[0]):
        return model.final_logits(hidden, head, spec.shape)
    hidden = spec.layout.constrain(hidden, spec.layout.copies)
    return spec.layout.constrain(model.final_logits(hidden, head, spec.shape), spec.layout.copies, (FSDP, TP))


def _pick_greedy(spec: StepSpec, params: Params, x: jax.Array, count: jax.Array) -> GeneratedTokens:
    return GeneratedTokens(jnp.argmax(next_logits(spec, params, x), -1).astype(jnp.int32))


def _draw(spec: StepSpec, temperature: jax.Array, seeds: jax.Array, params: Params, x: jax.Array,
          count: jax.Array) -> GeneratedTokens:
    """One token from ``softmax(logits / temperature)``, and its log probability there.

    The token with the largest sum of logit and Gumbel noise is taken. A row's noise depends on its seed and on
    ``count`` only, and has the same bits on every device and mesh.
    """
    logits = next_logits(spec, params, x)

    def noise(seed: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), count)
        return jax.random.gumbel(key, logits.shape[1:], jnp.float32)

    noises = jax.vmap(noise)(seeds)
    if spec.layout.splits_vocabulary(logits.shape[1]):
        noises = spec.layout.constrain(noises, spec.layout.copies, (FSDP, TP))
    scaled = logits / temperature
    token = jnp.argmax(scaled + noises, -1).astype(jnp.int32)
    # A sum instead of a gather: each device adds its own part of the vocabulary.
    hit = jax.lax.broadcasted_iota(jnp.int32, scaled.shape, 1) == token[:, None]
    return GeneratedTokens(token, jnp.sum(jnp.where(hit, scaled, 0.0), -1) - jax.nn.logsumexp(scaled, -1))


def gathered_once(spec: StepSpec, params: Params, rows: int, length: int) -> Params:
    """The parameters with their layers gathered over ``fsdp`` for a whole batch, if they fit; otherwise as they are.

    ``rows``: of all devices; ``length``: of the longest prompt with its completion.
    """
    if spec.layout.shape.fsdp == 1:
        return params
    state, layers = abstract_state(spec), spec.layout.gathered_layers(params["layers"])
    numbers = rows // spec.layout.shape.row_devices * length * cached_numbers(spec.shape)
    fits = keeps_gathered_layers(
        state_bytes=bytes_on_device(state, state_shardings(spec, state)),
        gathered_bytes=bytes_on_device(params["layers"], layers),
        cache_bytes=numbers * jnp.dtype(spec.compute_dtype).itemsize, device_bytes=spec.device_bytes)
    return {**params, "layers": jax.lax.with_sharding_constraint(params["layers"], layers)} if fits else params


def generate(spec: StepSpec, capacity: int, sampled: bool, params: Params, tokens: jax.Array, lengths: jax.Array,
             limit: jax.Array, stop_ids: jax.Array, real: jax.Array, temperature: jax.Array,
             seeds: jax.Array) -> GeneratedTokens:
    """``[B, capacity]`` tokens. A row ends with a stop token or after ``limit`` tokens, and has 0 after its end.

    Arguments as in `start_decoding`; ``temperature`` and ``seeds`` ``[B]`` are used only if tokens are ``sampled``.
    """
    params = gathered_once(spec, params, lengths.shape[0], tokens.shape[1] + capacity)
    pick: PickToken = partial(_draw, spec, temperature, seeds) if sampled else partial(_pick_greedy, spec)
    start = start_decoding(spec, capacity, pick, params, tokens, lengths, real)
    return decode_until(spec, pick, params, lengths, limit, stop_ids, start).written


@dataclass(frozen=True)
class PromptBatch:
    """Prompts of the same padded length: the arguments of one call of the compiled program."""

    indices: list[int]
    """Index of each row's prompt; further rows are padding."""
    tokens: np.ndarray
    """``[G, P]``: each prompt once, for all rows that continue it."""
    lengths: np.ndarray
    """``[B]``: length of each row's prompt."""
    real: np.ndarray
    """``[B]`` bool: rows that are not padding."""


def prompt_batches(prompts: Sequence[Sequence[int]], rows_multiple: int = 1, *, copies: int = 1) -> list[PromptBatch]:
    """Prompts grouped by padded length, in batches of at most `MAX_PROMPTS` rows.

    A batch has a multiple of ``rows_multiple`` prompts. ``copies`` equal prompts follow each other and stay together.
    """
    by_length: dict[int, list[int]] = {}
    for i in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
        by_length.setdefault(bucket(len(prompts[i])), []).append(i)
    batch_rows = max_prompts(copies, rows_multiple) * copies
    return [_padded(prompts, indices[start:start + batch_rows], length, rows_multiple, copies)
            for length, indices in by_length.items() for start in range(0, len(indices), batch_rows)]


def max_prompts(copies: int, multiple: int) -> int:
    """The most prompts of a batch, each with this many copies; ``multiple``: devices that share copies evenly."""
    return MAX_PROMPTS if copies == 1 else max(1, MAX_PROMPTS // copies // multiple) * multiple


def padded_prompts(count: int, copies: int, multiple: int) -> int:
    """Prompts with padding: a power of two or a multiple of ``multiple``, so 5 become 8, or 9 on three devices."""
    least = -(-8 // copies)  # at least 8 rows
    padded = -(-bucket(count, least) // multiple) * multiple
    return padded if copies == 1 else min(padded, max_prompts(copies, multiple))


def _padded(prompts: Sequence[Sequence[int]], indices: list[int], length: int, rows_multiple: int,
            copies: int) -> PromptBatch:
    count = padded_prompts(len(indices) // copies, copies, rows_multiple)
    tokens = np.zeros((count, length), np.int32)
    # A row of padding has one token, so that there is something to attend to.
    lengths = np.ones(count, np.int32)
    for row, i in enumerate(indices[::copies]):
        tokens[row, length - len(prompts[i]):] = prompts[i]
        lengths[row] = len(prompts[i])
    return PromptBatch(indices, tokens, np.repeat(lengths, copies), np.arange(count * copies) < len(indices))


class Generator:
    """Generates completions of prompts by compiled programs, which it keeps."""

    def __init__(self, spec: StepSpec) -> None:
        self.spec = spec
        self._programs: dict[tuple[int, bool], Any] = {}
        self._streaming: dict[int, tuple[Any, Any]] = {}

    def answer(self, params: Params, prompts: Sequence[Sequence[int]], max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float = 0.0, seeds: Sequence[int] | None = None) -> list[Completion]:
        """One completion per prompt, in order; greedy without ``seeds``. Raises `RequestError` as `check_sampling`."""
        check_prompts(prompts)
        if seeds is not None:
            check_sampling(prompts, temperature, seeds)
        # The limit is an argument, so that few programs serve for all limits.
        capacity, sampled = bucket(max_new_tokens), seeds is not None
        if (capacity, sampled) not in self._programs:
            self._programs[capacity, sampled] = jax.jit(partial(generate, self.spec, capacity, sampled),
                                                        out_shardings=self.spec.layout.sharding())
        program, stops = self._programs[capacity, sampled], stop_array(stop_ids)
        devices = self.spec.layout.shape.row_devices
        # Every device reads at least one prompt.
        copies = copies_of_each(prompts, min(MAX_PROMPTS, len(prompts)) // devices) if sampled else 1
        answers: dict[int, Completion] = {}
        for rows in prompt_batches(prompts, devices, copies=copies):
            row_seeds = np.zeros(len(rows.real), np.uint32)
            if seeds:
                row_seeds[:len(rows.indices)] = [seeds[i] for i in rows.indices]
            generated = program(params, rows.tokens, rows.lengths, np.int32(max_new_tokens), stops, rows.real,
                                np.float32(temperature), row_seeds)
            of_prompts = jax.tree.map(lambda x: np.asarray(x)[:, :max_new_tokens].tolist(), generated)
            for row, i in enumerate(rows.indices):  # further rows are padding
                log_probs = of_prompts.log_probs[row] if sampled else ()
                answers[i] = Completion.of(of_prompts.tokens[row], stop_ids, log_probs)
        return [answers[i] for i in range(len(prompts))]

    def stream(self, params: Params, prompt: Sequence[int], max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> Completion:
        """The greedy completion of `answer`; ``tell`` is called with each token when it is generated."""
        check_prompts([prompt])
        capacity, greedy = bucket(max_new_tokens), partial(_pick_greedy, self.spec)
        if capacity not in self._streaming:
            # The state is donated, so that its cache is written in place.
            self._streaming[capacity] = (jax.jit(partial(start_decoding, self.spec, capacity, greedy)),
                                         jax.jit(partial(decode_until, self.spec, greedy), donate_argnums=4))
        start, go_on = self._streaming[capacity]
        rows = prompt_batches([prompt], self.spec.layout.shape.row_devices)[0]
        stops, written = stop_array(stop_ids), list[int]()
        params = gathered_once(self.spec, params, len(rows.lengths), rows.tokens.shape[1] + capacity)
        state = start(params, rows.tokens, rows.lengths, rows.real)
        for limit in range(1, max_new_tokens + 1):
            written.append(int(np.asarray(state.next_tokens.tokens)[0]))
            if written[-1] in stop_ids:
                break
            tell(written[-1])
            if limit < max_new_tokens:
                state = go_on(params, rows.lengths, np.int32(limit), stops, state)
        return Completion.of(written, stop_ids)


def stop_array(stop_ids: Sequence[int]) -> np.ndarray:
    """Stop tokens as a compiled program takes them."""
    # Without stop tokens the array has an element that no token equals.
    return np.array([*stop_ids] or [-1], np.int32)
