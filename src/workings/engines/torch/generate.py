"""Generation in batches with a key/value cache, greedy or drawn at a temperature.

Prompts are padded on the right, and new tokens go to the same cache slots after the padding; which slots a row may see,
and how far apart two tokens are, is decided by positions, as in the JAX engine.

Shape suffixes: B rows, P padded prompt length, T cache slots, V vocabulary.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from workings.engines.base import Completion
from workings.engines.prefill import prompts_at_a_time
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.linear_attention import choose_rows, empty_cache, join_caches
from workings.engines.torch.model import final_logits, hidden_states
from workings.engines.torch.spec import TorchSpec

MAX_ROWS = 128
"""Most rows answered at a time."""
PickToken = Callable[[Tensor, int, Tensor], tuple[Tensor, ...]]
"""``(logits [B, V], number of the new token, which rows these are [B]) -> [B] int64`` tokens; of drawn ones their log
probabilities as well, float64."""
WHOLE = 2.0**62
"""What probability 1 is as an integer. A sum over the largest vocabulary, every term rounded, is below 2**63."""


def greedy(logits: Tensor, count: int, rows: Tensor) -> tuple[Tensor]:
    """The likeliest token."""
    del count, rows
    return (logits.argmax(-1),)


def uniform_numbers(seeds: Sequence[int], count: int, device: torch.device) -> Tensor:
    """``[count, B]`` float64 from 0 to below 1: each row's from its own seed, so that its neighbours do not matter."""
    made = np.stack([np.random.Generator(np.random.Philox(seed)).random(count) for seed in seeds], 1)
    return torch.from_numpy(made).to(device)


def drawn(temperature: float, uniform: Tensor) -> PickToken:
    """Tokens drawn at a temperature: where a row's uniform number falls among its sums of probabilities.

    Args:
        temperature: above zero.
        uniform: from `uniform_numbers`, for as many tokens as will be written.
    """
    def pick(logits: Tensor, count: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.double().div_(temperature).log_softmax(-1)
        # Sums of integers are exact, so that every device and every order of summing gives the same ones; CUDA's
        # running sums of floats differ from one time to the next.
        sums = log_probs.exp().mul_(WHOLE).long().cumsum_(-1)
        total = sums[:, -1:]
        # Rounding must not lift a number that is nearly 1 above all tokens.
        point = torch.minimum((uniform[count, rows, None] * total).long(), total - 1)
        # The first token whose sum is above the point; weights that are no numbers give any token, but one in range.
        token = torch.searchsorted(sums, point, right=True).clamp_(max=logits.shape[1] - 1)
        return token[:, 0], log_probs.gather(1, token)[:, 0]

    return pick


def order(prompts: Sequence[Sequence[int]], copies: int = 1, *, alike: bool = False) -> list[list[int]]:
    """Indices of prompts sorted by length, so that little is padding, in batches of at most `MAX_ROWS`.

    Args:
        prompts: in the order of their indices.
        copies: so many equal ones stand next to each other, and stay together.
        alike: only prompts of one length in a batch, for models whose state no mask keeps from padding.
    """
    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    groups = [[*same] for _, same in groupby(by_length, key=lambda i: len(prompts[i]))] if alike else [by_length]
    most = MAX_ROWS // copies * copies
    return [group[start:start + most] for group in groups for start in range(0, len(group), most)]


def answer(spec: TorchSpec, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
           stop_ids: Sequence[int], pick: PickToken, copies: int = 1) -> list[Completion]:
    """Continue one batch of prompts, in the order given; so many ``copies`` of each stand next to each other."""
    was_training = model.training
    model.eval()  # gradient checkpointing, where it is on, would drop the cache
    try:
        with torch.no_grad():
            written = _continue(spec, model, prompts, max_new_tokens, stop_ids, pick, copies)
    finally:
        model.train(was_training)
    return [Completion.of(row[0], stop_ids, *row[1:]) for row in zip(*written, strict=True)]


def prefill_prompts(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor,
                 copies: int = 1) -> tuple[Tensor, Any]:
    """``[B, D]`` hidden state of each prompt's last token, and the cache of all prompts ``[B, P]``; each read once.

    Args:
        spec: the step's.
        model: in evaluation mode.
        tokens: ``[B, P]``, padded on the right.
        lengths: ``[B]`` of the prompts.
        copies: so many equal prompts stand next to each other.
    """
    last, cache = _prefill_in_parts(spec, model, tokens[::copies], lengths[::copies])
    if copies > 1:
        choose_rows(cache, torch.arange(len(last), device=last.device).repeat_interleave(copies))
    return last.repeat_interleave(copies, 0), cache


def _prefill_in_parts(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
    """As `prefill_prompts`, of prompts without copies.

    They are read some at a time (`workings.engines.prefill`); their caches are then put together layer by layer.
    """
    most = prompts_at_a_time(spec.shape, tokens.shape[1], spec.compute_dtype.itemsize)
    if not spec.shape.proven or len(tokens) <= most:  # of an unproven class it is not known what a cache holds
        return _prefill(spec, model, tokens, lengths)
    parts = [_prefill(spec, model, *part) for part in zip(tokens.split(most), lengths.split(most), strict=True)]
    return torch.cat([last for last, _ in parts]), join_caches([cache for _, cache in parts])


def _prefill(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
    index = torch.arange(tokens.shape[1], device=spec.device).expand_as(tokens)
    cache = empty_cache(spec.shape, model)
    # Padding is on the right: no real token can see it.
    hidden = hidden_states(model, tokens, index, AttentionMask(), cache)
    # Only each prompt's last token meets the head: [B, V] logits, not [B, P, V].
    return hidden[torch.arange(len(tokens), device=spec.device), lengths - 1], cache


def _continue(spec: TorchSpec, model: PreTrainedModel, prompts: Sequence[Sequence[int]], limit: int,
              stop_ids: Sequence[int], pick: PickToken, copies: int) -> list[list[list[Any]]]:
    """Tokens of every row, all of the same number, and their log probabilities where ``pick`` gives them."""
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=spec.device)
    padded = int(lengths.max())
    tokens = torch.tensor([[*prompt, *[0] * (padded - len(prompt))] for prompt in prompts], device=spec.device)
    index = torch.arange(padded, device=spec.device).expand_as(tokens)
    last, cache = prefill_prompts(spec, model, tokens, lengths, copies)
    # The position that each cache slot holds; slots of padding have one too, but are never seen.
    places, seen = index, index < lengths[:, None]
    stops = torch.tensor([*stop_ids], dtype=torch.int64, device=spec.device)
    # The rows that are still computed, and which of them are done.
    rows = torch.arange(len(prompts), device=spec.device)
    done = torch.zeros_like(rows, dtype=torch.bool)
    written: list[tuple[Tensor, ...]] = []
    while True:
        picked = pick(final_logits(model, last, spec.shape.final_softcap), len(written), rows)
        picked = tuple(spec.mesh.agreed(x) for x in picked)
        written.append(tuple(x.new_zeros(len(prompts)).index_copy(0, rows, x) for x in picked))
        token = picked[0]
        done |= torch.isin(token, stops)
        # Asking how many are not done makes the host wait once a token.
        going = len(rows) - int(done.sum())
        if len(written) == limit or going == 0:
            return [torch.stack(each, 1).tolist() for each in zip(*written, strict=True)]
        # Rows that are done go on until they are half of all: to leave them out copies the others' cache.
        if going <= len(rows) // 2 and spec.shape.proven:
            kept = torch.nonzero(~done)[:, 0]
            rows, done, token, lengths, places, seen = (x[kept] for x in (rows, done, token, lengths, places, seen))
            choose_rows(cache, kept)
        # The first new token follows its own prompt, not the padding behind it.
        position = (lengths + len(written) - 1)[:, None]
        places = torch.cat([places, position], 1)
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], 1)
        visible = AttentionMask(distance=(position - places)[:, None], seen=seen)
        last = hidden_states(model, token[:, None], position, visible, cache)[:, -1]
