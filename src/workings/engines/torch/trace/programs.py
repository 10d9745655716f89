"""Programs of a run that can be traced: its step, forward passes, and generation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from workings.engines.base import GenerationShape, ProgramName
from workings.engines.prefill import MAX_PROMPTS, largest_divisor
from workings.engines.torch import step as torch_step
from workings.engines.torch.decode import Decoder, FixedCache, PickToken
from workings.engines.torch.generate import gathering_once, greedy, prefill_prompts, sampled
from workings.engines.torch.model import caching
from workings.engines.torch.spec import TorchSpec
from workings.engines.torch.step import State
from workings.models.batch import BatchShape
from workings.objectives.top_tokens import TopTokens


def step(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Two updates: the first one makes moments and caches that are there in all later ones."""
    for _ in range(2):
        rows = torch_step.blank_rows(spec, size)
        torch_step.run_step(spec, state, rows, float(size.all_rows * size.positions), 1e-3)
        del rows  # as in a run, before the next batch comes


@torch.no_grad()
def _forward(spec: TorchSpec, state: State, size: BatchShape, compute: Callable[..., Any]) -> None:
    for rows in torch_step.blank_rows(spec, size):
        state.run(partial(compute, spec, rows=rows))


def evaluation(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Loss of one held-out batch while the whole state is in memory."""
    _forward(spec, state, size, torch_step.micro_batch_loss)


def log_probs(spec: TorchSpec, state: State, size: BatchShape) -> None:
    """Log probabilities of a batch's targets, or a teacher's most likely tokens."""
    objective = spec.request.objective
    if isinstance(objective, TopTokens):
        most_likely = partial(torch_step.micro_batch_most_likely, count=objective.top_k, below=spec.shape.vocab_size)
        _forward(spec, state, size, most_likely)
    else:
        _forward(spec, state, size, torch_step.micro_batch_log_probs)


@torch.no_grad()
def answers(spec: TorchSpec, state: State, size: GenerationShape, *, pick: PickToken = greedy, copies: int = 1) -> None:
    """Reading all prompts, and the last new token, which has the longest cache."""
    rows, length = own_rows(spec, size.prompts, copies), size.prompt_tokens + size.new_tokens
    with caching(state.model), gathering_once(spec, state, rows, length):
        state.run(lambda model: _generate(spec, model, size, pick, copies))


def drawing(spec: TorchSpec, state: State, size: GenerationShape) -> None:
    """`answers` with sampling, several of each prompt."""
    most = min(MAX_PROMPTS, size.prompts // spec.mesh.processes)
    copies = largest_divisor(spec.request.completions_of_a_prompt, most) if spec.shape.verified else 1
    rows = own_rows(spec, size.prompts, copies)
    uniform = torch.zeros((max(2, size.new_tokens), rows), dtype=torch.float64, device=spec.device)
    answers(spec, state, size, pick=sampled(1.0, uniform), copies=copies)


def own_rows(spec: TorchSpec, prompts: int, copies: int) -> int:
    """Rows of one process. A prompt's copies stay together: 4 rows of 6 for three prompts, 2 copies, 2 processes."""
    return -(-(prompts // copies) // spec.mesh.processes) * copies


def _generate(spec: TorchSpec, model: PreTrainedModel, size: GenerationShape, pick: PickToken, copies: int) -> None:
    prompts, length, new = size
    rows = own_rows(spec, prompts, copies)
    index = torch.zeros((rows, length), dtype=torch.int64, device=spec.device)
    lengths = torch.full((rows,), length, device=spec.device)
    last, cache = prefill_prompts(spec, model, index, lengths, new_slots=new - 1, copies=copies)
    decoder = Decoder(spec, model, cache, lengths, padded=length, limit=new, stop_ids=(0,), pick=pick)
    decoder.choose(last)
    del last, cache
    # A cache of fixed size has slots for all new tokens already.
    if not isinstance(decoder.cache, FixedCache):
        decoder.extend(length + new - 1)
        lengthen(decoder.cache, length + new - 2)
    decoder.advance()


def lengthen(cache: DynamicCache, slots: int) -> None:
    """Give the keys and values of a cache this many slots."""
    for layer in cache.layers:
        old = getattr(layer, "keys", None)
        if old is None:  # a layer with a linear state
            continue
        layer.keys = layer.values = None
        size = (*old.shape[:2], slots, old.shape[3])
        layer.keys, layer.values = old.new_empty(size), old.new_empty(size)


PROGRAMS: dict[ProgramName, Callable[[TorchSpec, State, Any], None]] = {
    "step": step, "evaluation": evaluation, "log_probs": log_probs, "generation": answers, "drawing": drawing}
"""Each takes its own kind of shape (`workings.engines.base.ProgramShape`)."""
