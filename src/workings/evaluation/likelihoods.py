"""How likely a model finds given continuations of given tokens, computed in batches of few shapes."""

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
"""Rows have a multiple of this length in tokens, so that few programs are compiled."""
TOKENS_AT_A_TIME = 8192
"""Tokens of a batch of several rows, padding included."""

Continuation = tuple[Sequence[int], Sequence[int]]
"""Token ids that are given, at least one, and the token ids that follow."""


def continuation_log_probs(session: ModelSession, pairs: Sequence[Continuation]) -> list[tuple[float, ...]]:
    """Natural log probability, at temperature 1, of each token of each continuation, in the order of the pairs.

    Raises `RequestError` if the engine computes none.
    """
    engine = session.engine
    if not isinstance(engine, LikelihoodEngine):
        raise RequestError(f"engine {engine.name} computes no log probabilities", "engine jax or torch",
                           "leave logprobs out")
    log_probs: list[tuple[float, ...]] = [()] * len(pairs)
    for numbers, batch in _batches(session, pairs):
        values_BS = engine.log_probs(session.state, batch)[0]
        for row, number in enumerate(numbers):
            log_probs[number] = tuple(map(float, values_BS[row][_positions(pairs[number])]))
    return log_probs


def are_greedy(session: ModelSession, pairs: Sequence[Continuation]) -> list[bool]:
    """Whether each continuation is what greedy decoding writes, in the order of the pairs; errors of `likeliest`."""
    return [[token for token, _ in tokens] == [*rest]
            for tokens, (_, rest) in zip(likeliest(session, pairs), pairs, strict=True)]


def likeliest(session: ModelSession, pairs: Sequence[Continuation]) -> list[list[tuple[int, float]]]:
    """The most likely token in the place of each token of each continuation, and its natural log probability.

    Raises `RequestError` if the engine does not tell it.
    """
    engine = session.engine
    if not isinstance(engine, TeachingEngine):
        raise RequestError(f"engine {engine.name} does not tell its most likely tokens", "engine jax or torch")
    found: list[list[tuple[int, float]]] = [[]] * len(pairs)
    for numbers, batch in _batches(session, pairs):
        tokens_BS, log_probs_BS = (x[0, ..., 0] for x in engine.most_likely(session.state, batch, 1,
                                                                            session.tokenizer.vocab_size))
        for row, number in enumerate(numbers):
            places = _positions(pairs[number])
            found[number] = [*zip(tokens_BS[row][places].tolist(), log_probs_BS[row][places].tolist(), strict=True)]
    return found


def _positions(pair: Continuation) -> slice:
    """Positions that predict the continuation: each predicts the next token."""
    return slice(len(pair[0]) - 1, len(pair[0]) + len(pair[1]) - 1)


def _batches(session: ModelSession, pairs: Sequence[Continuation]) -> Iterator[tuple[list[int], Batch]]:
    """Batches ``[1, B, S]`` and the numbers of the pairs in their first rows, the longest pairs first."""
    shares = row_devices(session.engine.describe().mesh)
    lengths = [-(-(len(given) + len(rest)) // LENGTH_STEP) * LENGTH_STEP for given, rest in pairs]
    order, start = sorted(range(len(pairs)), key=lambda number: -lengths[number]), 0
    while start < len(order):
        length = lengths[order[start]]
        # Pairs of one length together, so that no row is padded further than its length asks for.
        alike = [number for number in order[start:start + max(1, TOKENS_AT_A_TIME // length)]
                 if lengths[number] == length]
        rows = [[Row(id="continuation", tokens=np.array([*given, *rest], np.int32), prompt_digest="",
                     loss_mask=np.array([0] * len(given) + [1] * len(rest), np.uint8))]
                for given, rest in (pairs[number] for number in alike)]
        # The devices share the rows evenly.
        rows += [[]] * (-len(rows) % shares)
        yield alike, make_batch(rows, (1, len(rows)), length, 0)
        start += len(alike)
