"""Programs of a run that can be traced: its step, forward passes, and generation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from workings.engines.base import GenerationShape, ProgramName
from workings.engines.prefill import MAX_PROMPTS, largest_divisor
from workings.engines.torch.decode import Decoder, FixedCache, PickToken
from workings.engines.torch.generate import greedy, prefill_prompts, sampled
from workings.engines.torch.model import caching
from workings.engines.torch.spec import TorchSpec
from workings.engines.torch.step import (
    State,
    blank_rows,
    micro_batch_log_probs,
    micro_batch_loss,
    micro_batch_most_likely,
    run_step,
)
from workings.models.batch import BatchShape
from workings.objectives.top_tokens import TopTokens


def step(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Two updates: only from the second on are moments, caches and the allocator's pools as in a long run."""
    for _ in range(2):
        rows = blank_rows(spec, size)
        run_step(spec, state, rows, float(size.all_rows * size.positions), 1e-3)
        # As in a run, a batch is gone before the next one comes.
        del rows


@torch.no_grad()
def _forward(spec: TorchSpec, state: State, size: BatchShape, ask: Any) -> None:
    for rows in blank_rows(spec, size):
        state.run(partial(ask, spec, rows=rows))


def evaluation(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Loss of one held-out batch while the whole state is in memory."""
    _forward(spec, state, size, micro_batch_loss)


def log_probs(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Log probabilities of a batch's targets, or a teacher's most likely tokens, one micro batch after the other."""
    asked = spec.request.objective
    _forward(spec, state, size, partial(
        micro_batch_most_likely, count=asked.top_k, below=spec.shape.vocab_size) if isinstance(asked, TopTokens)
        else micro_batch_log_probs)


@torch.no_grad()
def answers(spec: TorchSpec, state: State, size: GenerationShape, *, pick: PickToken = greedy,
            copies: int = 1) -> None:
    """Reading all prompts, and the last new token, whose cache is the longest; those between need less.

    `engines/torch/generate.py` stops when all rows are done, which a trace cannot know.
    """
    with caching(state.model):
        state.run(lambda model: _generate(spec, model, size, pick, copies))


def drawing(spec: TorchSpec, state: State, size: GenerationShape) -> None:
    """`answers` with sampling, several of each prompt."""
    most = min(MAX_PROMPTS, size.prompts // spec.mesh.processes)
    copies = largest_divisor(spec.request.completions_of_a_prompt, most) if spec.shape.verified else 1
    uniform = torch.zeros((max(2, size.new_tokens), own_rows(spec, size.prompts, copies)), dtype=torch.float64,
                          device=spec.device)
    answers(spec, state, size, pick=sampled(1.0, uniform), copies=copies)


def own_rows(spec: TorchSpec, prompts: int, copies: int) -> int:
    """Rows of one process, which has whole prompts with all their copies."""
    return -(-(prompts // copies) // spec.mesh.processes) * copies


def _generate(spec: TorchSpec, model: PreTrainedModel, size: GenerationShape, pick: PickToken, copies: int) -> None:
    prompts, length, new = size
    rows = own_rows(spec, prompts, copies)
    index = torch.zeros((rows, length), dtype=torch.int64, device=spec.device)
    lengths = torch.full((rows,), length, device=spec.device)
    last, cache = prefill_prompts(spec, model, index, lengths, room=new - 1, copies=copies)
    decoder = Decoder(spec, model, cache, lengths, padded=length, limit=new, stop_ids=(0,), pick=pick)
    decoder.choose(last)
    del last, cache
    # There is room for all tokens but the last, which is picked and never read; a cache that grows is as long then.
    if not isinstance(decoder.cache, FixedCache):
        decoder.make_room(length + new - 1)
        lengthen(decoder.cache, length + new - 2)
    decoder.advance()


def lengthen(cache: DynamicCache, slots: int) -> None:
    """A cache as after all tokens but the last, without those between."""
    for layer in cache.layers:
        old = getattr(layer, "keys", None)
        if old is None:  # a layer that keeps a state of fixed size
            continue
        layer.keys = layer.values = None
        size = (*old.shape[:2], slots, old.shape[3])
        layer.keys, layer.values = old.new_empty(size), old.new_empty(size)


PROGRAMS: dict[ProgramName, Callable[[TorchSpec, State, Any], None]] = {
    "step": step, "evaluation": evaluation, "log_probs": log_probs, "generation": answers,
    "drawing": drawing}
"""Each takes its own kind of shape (`workings.engines.base.ProgramShape`)."""
