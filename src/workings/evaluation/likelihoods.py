"""Log probabilities that a model gives to the tokens of given continuations, computed in batches of few shapes."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workings.data.batches import make_batch
from workings.data.rows import Row
from workings.engines.base import LikelihoodEngine, TeachingEngine
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.hardware.device import row_devices
from workings.models.batch import Batch

LENGTH_STEP = 128
"""The length of every row, in tokens, is a multiple of this, so that few programs are compiled."""
TOKENS_AT_A_TIME = 8192
"""Most tokens of a batch of several rows, padding included."""

Continuation = tuple[Sequence[int], Sequence[int]]
"""Token ids of a text (at least one), and token ids that continue it."""


def continuation_log_probs(session: ModelSession, pairs: Sequence[Continuation]) -> list[tuple[float, ...]]:
    """For each pair the natural log probabilities of the continuing tokens, at temperature 1. Raises `RequestError`."""
    engine = session.engine
    if not isinstance(engine, LikelihoodEngine):
        raise RequestError(f"engine {engine.name} computes no log probabilities", "engine jax or torch",
                           "leave logprobs out")
    log_probs: list[tuple[float, ...]] = [()] * len(pairs)
    for indices, batch in _batches(session, pairs):
        values_BS = engine.log_probs(session.state, batch)[0]
        for row, index in enumerate(indices):
            log_probs[index] = tuple(map(float, values_BS[row][_positions(pairs[index])]))
    return log_probs


def are_greedy(session: ModelSession, pairs: Sequence[Continuation]) -> list[bool]:
    """For each pair whether greedy decoding writes the continuation. Raises as `likeliest`."""
    return [[token for token, _ in tokens] == [*rest]
            for tokens, (_, rest) in zip(likeliest(session, pairs), pairs, strict=True)]


def likeliest(session: ModelSession, pairs: Sequence[Continuation]) -> list[list[tuple[int, float]]]:
    """For each pair the most likely tokens in place of the continuing ones, and their log probabilities in nats."""
    engine = session.engine
    if not isinstance(engine, TeachingEngine):
        raise RequestError(f"engine {engine.name} does not tell its most likely tokens", "engine jax or torch")
    found: list[list[tuple[int, float]]] = [[]] * len(pairs)
    for indices, batch in _batches(session, pairs):
        tokens, log_probs = engine.most_likely(session.state, batch, 1, session.tokenizer.vocab_size)
        tokens_BS, log_probs_BS = tokens[0, ..., 0], log_probs[0, ..., 0]
        for row, index in enumerate(indices):
            places = _positions(pairs[index])
            found[index] = [*zip(tokens_BS[row][places].tolist(), log_probs_BS[row][places].tolist(), strict=True)]
    return found


def _positions(pair: Continuation) -> slice:
    """Positions whose predictions are the continuation: 2 and 3 for one of two tokens after three given ones."""
    given, continuation = pair
    first = len(given) - 1
    return slice(first, first + len(continuation))


def _batches(session: ModelSession, pairs: Sequence[Continuation]) -> Iterator[tuple[list[int], Batch]]:
    """Batches ``[1, B, S]`` of pairs with the same padded length S, and the pairs' indices; the longest first."""
    devices = row_devices(session.engine.describe().mesh)
    lengths = [math.ceil((len(given) + len(rest)) / LENGTH_STEP) * LENGTH_STEP for given, rest in pairs]
    order = sorted(range(len(pairs)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        length = lengths[order[start]]
        alike = [index for index in order[start:start + max(1, TOKENS_AT_A_TIME // length)] if lengths[index] == length]
        rows = [[Row(id="continuation", tokens=np.array([*given, *rest], np.int32), prompt_digest="",
                     loss_mask=np.array([0] * len(given) + [1] * len(rest), np.uint8))]
                for given, rest in (pairs[index] for index in alike)]
        rows += [[]] * (-len(rows) % devices)  # empty rows, so that all devices have as many
        yield alike, make_batch(rows, (1, len(rows)), length, 0)
        start += len(alike)
