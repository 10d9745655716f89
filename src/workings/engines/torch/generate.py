"""Generation in batches with a key/value cache, greedy or sampled at a temperature.

Prompts are padded on the right. A new token of every row goes into the same cache slot, after the padding:

    slots      0 1 2 3 4 5
    short row  a b . . C D
    long row   a b c d E F

Shape suffixes: B rows, P padded prompt length, V vocabulary.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import DynamicCache, PreTrainedModel

from workings.engines.base import Completion
from workings.engines.prefill import MAX_PROMPTS, cached_numbers, keeps_gathered_layers, prompts_at_a_time
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.decode import FIRST_NEW_SLOTS, Decoder, FixedCache, PickToken
from workings.engines.torch.linear_attention import empty_cache, join_caches
from workings.engines.torch.model import caching, hidden_states
from workings.engines.torch.sharding import REPLICATED_SLOTS, layers_stay_gathered, part_bytes, per_layer_table
from workings.engines.torch.spec import TorchSpec
from workings.engines.torch.step import State

WHOLE = 2.0**62
"""Probability 1 as an integer. With rounding, the sum over the largest vocabulary stays below 2**63."""


def greedy(logits: Tensor, count: Tensor, rows: Tensor) -> tuple[Tensor]:
    """The likeliest token."""
    return (logits.argmax(-1),)


def uniform_numbers(seeds: Sequence[int], count: int, device: torch.device) -> Tensor:
    """``[count, B]`` float64 in [0, 1); those of a row depend on its own seed only."""
    numbers = np.stack([np.random.Generator(np.random.Philox(seed)).random(count) for seed in seeds], 1)
    return torch.from_numpy(numbers).to(device)


def sampled(temperature: float, uniform: Tensor) -> PickToken:
    """Sampling by inverse transform: the first token whose cumulative probability exceeds the row's uniform number.

    ``uniform`` is from `uniform_numbers`, for every token that may be generated. 0.6 takes token 1 of 0.5, 0.3, 0.2.
    """
    def pick(logits: Tensor, count: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        # In float32 the errors of the sums would be larger than the probabilities of rare tokens.
        log_probs = logits.double().div_(temperature).log_softmax(-1)
        # Integers, because CUDA's cumulative sums of floats differ from run to run.
        sums = log_probs.exp().mul_(WHOLE).long().cumsum_(-1)
        total = sums[:, -1:]
        point = torch.minimum((uniform[count, rows][:, None] * total).long(), total - 1)
        # `clamp_` keeps the token in range if the logits are NaN.
        token = torch.searchsorted(sums, point, right=True).clamp_(max=logits.shape[1] - 1)
        return token[:, 0], log_probs.gather(1, token)[:, 0]

    return pick


def batch_indices(prompts: Sequence[Sequence[int]], copies: int = 1, processes: int = 1, *,
                  same_length: bool = False) -> list[list[int]]:
    """Batches of at most `MAX_PROMPTS` prompt indices per process, sorted by length to save padding.

    ``copies`` equal prompts are next to each other and stay together. The last prompt of a batch is repeated until all
    ``processes`` have as many. With ``same_length`` the prompts of a batch are of one length.
    """
    def length(index: int) -> int:
        return len(prompts[index])

    indices = sorted(range(len(prompts)), key=length)
    groups = [list(equal) for _, equal in groupby(indices, key=length)] if same_length else [indices]
    rows = MAX_PROMPTS // copies * copies * processes
    batches = [group[start:start + rows] for group in groups for start in range(0, len(group), rows)]
    # Repeated as often as prompts are missing: -3 % 2 = 1 of 3 prompts for 2 processes.
    return [batch + batch[-copies:] * (-(len(batch) // copies) % processes) for batch in batches]


def gathering_once(spec: TorchSpec, state: State, rows: int, length: int) -> AbstractContextManager[None]:
    """Inside, layers that are split among processes are gathered for a batch once, not for every token, if they fit.

    ``rows``: of one process; ``length``: of the longest prompt with its completion.
    """
    if spec.mesh.fsdp == 1:
        return nullcontext()
    gathered = sum(x.numel() * x.element_size() for x in state.model.parameters() if isinstance(x, DTensor))
    fits = keeps_gathered_layers(
        state_bytes=_state_bytes(spec, state), gathered_bytes=gathered,
        cache_bytes=rows * length * cached_numbers(spec.shape) * spec.compute_dtype.itemsize,
        device_bytes=spec.device_bytes)
    return layers_stay_gathered(state.model) if fits else nullcontext()


def _state_bytes(spec: TorchSpec, state: State) -> int:
    """Bytes of weights and moments in device memory, on the process with the largest parts."""
    table = per_layer_table(state.model) if spec.table_on_host else None
    weights = sum(part_bytes(x, x, spec.mesh) for x in state.model.parameters()
                  if table is None or x is not table.weight)
    moments = sum(x.nbytes if slot in REPLICATED_SLOTS else part_bytes(x, state.trained[name], spec.mesh)
                  for slot, by_name in state.moments.items() for name, x in by_name.items())
    return weights + moments


def complete(spec: TorchSpec, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
             stop_ids: Sequence[int], pick: PickToken, copies: int = 1,
             tell: Callable[[int], None] | None = None) -> list[Completion]:
    """Completions of one batch of prompts, in their order; ``copies`` equal prompts are next to each other.

    Each process computes its own rows, for which ``pick`` chooses, and returns the completions of all processes. With
    ``tell`` the batch is one prompt, whose tokens are passed on as they come.
    """
    padded = max(map(len, prompts))
    own = prompts[spec.mesh.rows(len(prompts))]
    lengths = torch.tensor([len(prompt) for prompt in own], device=spec.device)
    tokens = torch.tensor([[*prompt, *[0] * (padded - len(prompt))] for prompt in own], device=spec.device)
    with caching(model):
        # The last token is never read, so it needs no slot.
        new_slots = min(FIRST_NEW_SLOTS[spec.device.type], max_new_tokens - 1)
        last, cache = prefill_prompts(spec, model, tokens, lengths, copies=copies, new_slots=new_slots)
        decoder = Decoder(spec, model, cache, lengths, padded=padded, limit=max_new_tokens, stop_ids=stop_ids,
                          pick=pick)
        generated = decoder.run(last, tell)
    return [Completion.of(row[0], stop_ids, *row[1:]) for row in zip(*generated, strict=True)]


def prefill_prompts(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor, *, new_slots: int,
                    copies: int = 1) -> tuple[Tensor, DynamicCache]:
    """``[B, D]`` hidden state of each prompt's last token, and the cache of all rows; equal prompts are read once.

    ``tokens`` ``[B, P]`` are padded on the right, and ``copies`` equal prompts are next to each other. ``new_slots``
    are those of a `FixedCache` for new tokens.
    """
    tokens, lengths = tokens[::copies], lengths[::copies]
    most = prompts_at_a_time(spec.shape, tokens.shape[1], spec.compute_dtype.itemsize)
    if not spec.shape.verified:  # caches of an unknown kind cannot be joined
        most = len(tokens)
    parts = list(zip(tokens.split(most), lengths.split(most), strict=True))
    last: list[Tensor] = []
    cache: DynamicCache
    if spec.shape.verified and not spec.shape.has_state:
        cache = FixedCache(spec, len(tokens) * copies, tokens.shape[1], new_slots, copies)
        for number, part in enumerate(parts):
            cache.first_prompt = number * most
            last.append(read_prompts(spec, model, *part, cache))
        cache.first_prompt = None
    else:
        caches = [empty_cache(model) for _ in parts]
        last += [read_prompts(spec, model, *part, cache) for part, cache in zip(parts, caches, strict=True)]
        cache = join_caches(caches) if len(caches) > 1 else caches[0]
        if copies > 1:
            cache.reorder_cache(torch.arange(len(tokens), device=tokens.device).repeat_interleave(copies))
    return torch.cat(last).repeat_interleave(copies, 0), cache


def read_prompts(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor,
                 cache: DynamicCache) -> Tensor:
    """``[B, D]`` hidden state of each prompt's last token; keys and values go into the cache."""
    index = torch.arange(tokens.shape[1], device=spec.device).expand_as(tokens)
    hidden = hidden_states(model, tokens, index, AttentionMask(), cache)
    return hidden[torch.arange(len(tokens), device=spec.device), lengths - 1]
