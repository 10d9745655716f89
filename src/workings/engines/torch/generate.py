"""Generation in batches with a key/value cache, greedy or sampled at a temperature.

Prompts are padded on the right, and all rows write a new token to the same cache slot, after the padding. Positions
decide which slots a row may attend to and how far apart two tokens are, as in the JAX engine.

Shape suffixes: B rows, P padded prompt length, V vocabulary.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from workings.engines.base import Completion
from workings.engines.prefill import MAX_PROMPTS, prompts_at_a_time
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.decode import ROOM, Decoder, FixedCache, PickToken
from workings.engines.torch.linear_attention import empty_cache, join_caches
from workings.engines.torch.model import caching, hidden_states
from workings.engines.torch.spec import TorchSpec

WHOLE = 2.0**62
"""Probability 1 as an integer. The sum over the largest vocabulary, with every term rounded, is below 2**63."""


def greedy(logits: Tensor, count: Tensor, rows: Tensor) -> tuple[Tensor]:
    """The likeliest token."""
    del count, rows
    return (logits.argmax(-1),)


def uniform_numbers(seeds: Sequence[int], count: int, device: torch.device) -> Tensor:
    """``[count, B]`` float64 in [0, 1); those of a row depend on its own seed only."""
    # Philox is counter-based: a start costs little, and its numbers are the same on every machine.
    numbers = np.stack([np.random.Generator(np.random.Philox(seed)).random(count) for seed in seeds], 1)
    return torch.from_numpy(numbers).to(device)


def sampled(temperature: float, uniform: Tensor) -> PickToken:
    """Sampling by inverse transform: the first token whose cumulative probability exceeds the row's uniform number.

    ``uniform`` is from `uniform_numbers`, for every token that may be generated.
    """
    def pick(logits: Tensor, count: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        # In float64: in float32 the sums over 256,000 tokens would be off by more than rare tokens have.
        log_probs = logits.double().div_(temperature).log_softmax(-1)
        # Sums of integers are exact, so every device and every order of summation gives the same result; CUDA's
        # cumulative sums of floats differ from run to run.
        sums = log_probs.exp().mul_(WHOLE).long().cumsum_(-1)
        total = sums[:, -1:]
        # Rounding must not put a number that is nearly 1 above all tokens.
        point = torch.minimum((uniform[count, rows][:, None] * total).long(), total - 1)
        # The first token whose sum is above the point. NaN weights give some token, but one in range.
        token = torch.searchsorted(sums, point, right=True).clamp_(max=logits.shape[1] - 1)
        return token[:, 0], log_probs.gather(1, token)[:, 0]

    return pick


def batch_indices(prompts: Sequence[Sequence[int]], copies: int = 1, processes: int = 1, *,
                  same_length: bool = False) -> list[list[int]]:
    """Batches of at most `MAX_PROMPTS` prompt indices a process, sorted by length to save padding.

    Of prompts ``copies`` that are equal are next to each other, and stay together. A batch has equal parts for the
    ``processes``, each of whole prompts; for that the last prompt may be repeated. With ``same_length`` it has prompts
    of one length only: a mask cannot keep a model's state from padding.
    """
    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    groups = [[*same] for _, same in groupby(by_length, key=lambda i: len(prompts[i]))] if same_length else [by_length]
    # Whole prompts: their copies share one reading and must not be torn apart.
    rows = MAX_PROMPTS // copies * copies * processes
    batches = [group[start:start + rows] for group in groups for start in range(0, len(group), rows)]
    # A row that is there twice ends when the other one does, so nothing waits for it.
    return [batch + batch[-copies:] * (-(len(batch) // copies) % processes) for batch in batches]


def complete(spec: TorchSpec, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
             stop_ids: Sequence[int], pick: PickToken, copies: int = 1,
             tell: Callable[[int], None] | None = None) -> list[Completion]:
    """Completions of one batch of prompts, in their order; ``copies`` equal prompts are next to each other.

    Of several processes each computes its own rows, for which ``pick`` chooses, and gets the completions of all. With
    ``tell`` the batch is one prompt, whose tokens are passed on as they come.
    """
    # Padded like the others' prompts, so that all processes read them in as many passes.
    padded, prompts = max(map(len, prompts)), prompts[spec.mesh.rows(len(prompts))]
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=spec.device)
    # On the right, where causality hides padding, so that no mask is needed to read prompts.
    tokens = torch.tensor([[*prompt, *[0] * (padded - len(prompt))] for prompt in prompts], device=spec.device)
    with caching(model):
        # The last token is picked and never read, so it needs no slot.
        last, cache = prefill_prompts(spec, model, tokens, lengths, copies=copies,
                                      room=min(ROOM[spec.device.type], max_new_tokens - 1))
        decoder = Decoder(spec, model, cache, lengths, padded=padded, limit=max_new_tokens, stop_ids=stop_ids,
                          pick=pick)
        generated = decoder.run(last, tell)
    return [Completion.of(row[0], stop_ids, *row[1:]) for row in zip(*generated, strict=True)]


def prefill_prompts(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor, *, room: int,
                    copies: int = 1) -> tuple[Tensor, DynamicCache]:
    """``[B, D]`` hidden state of each prompt's last token, and the cache of all rows; equal prompts are read once.

    ``tokens`` ``[B, P]`` are padded on the right, and ``copies`` equal prompts are next to each other. ``room``: slots
    of the cache for tokens to come, where it does not grow by itself.
    """
    tokens, lengths = tokens[::copies], lengths[::copies]
    most = prompts_at_a_time(spec.shape, tokens.shape[1], spec.compute_dtype.itemsize)
    if not spec.shape.verified:  # its cache may have any contents, which cannot be joined
        most = len(tokens)
    parts = list(zip(tokens.split(most), lengths.split(most), strict=True))
    last: list[Tensor] = []
    if spec.shape.verified and not spec.shape.has_state:
        cache: DynamicCache = (fixed := FixedCache(spec, len(tokens) * copies, tokens.shape[1], room, copies))
        for number, part in enumerate(parts):
            fixed.first_prompt = number * most
            last.append(read_prompts(spec, model, *part, fixed))
        fixed.first_prompt = None
    else:  # a state has no slots
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
