"""Drawn completions, the rings of the cache, and how prompts are cut into batches. Greedy text is compared with
transformers in `test_transformers_oracle.py`, on simulated devices in `test_sharding.py`."""

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from tests.engines.tiny import our_logits, request, tiny_shape
from workings.engines.base import Sampler, StreamingEngine
from workings.engines.jax import cache
from workings.engines.jax.engine import JaxEngine
from workings.errors import RequestError


@pytest.fixture(scope="module")
def engine() -> JaxEngine:
    """Both kinds of layers, a window of four."""
    return JaxEngine.open(request(tiny_shape("gemma2")))


@pytest.fixture(scope="module")
def state(engine: JaxEngine) -> dict:
    return engine.init(4)


def test_a_sliding_layer_keeps_its_window_and_no_more(engine: JaxEngine) -> None:
    shape = engine.spec.shape
    keys = jax.ShapeDtypeStruct((2, 8, 16, shape.kv_heads, shape.head_dim), np.float32)
    rings = jax.eval_shape(lambda k: cache.from_prompts(shape, engine.layout, {"": (k, k)}, 16), keys)
    assert {kind: ring.keys.shape[:3] for kind, ring in rings.items()} == {"local": (1, 8, 4), "global": (1, 8, 32)}
    llama = tiny_shape("llama")
    assert set(jax.eval_shape(lambda k: cache.from_prompts(llama, engine.layout, {"": (k, k)}, 16), keys)) == {"global"}


def test_a_streamed_answer_is_the_answer_token_by_token(engine: JaxEngine, state: dict) -> None:
    assert isinstance(engine, StreamingEngine)
    prompt = [7, 3, 9, 22, 5, 41]
    whole = engine.generate(state, [prompt], max_new_tokens=14, stop_ids=[])[0]
    for stop_ids in ([], [whole.tokens[9]]):
        told: list[int] = []
        answer = engine.stream(state, prompt, max_new_tokens=14, stop_ids=stop_ids, tell=told.append)
        assert answer == engine.generate(state, [prompt], max_new_tokens=14, stop_ids=stop_ids)[0]
        assert told == answer.tokens
    with pytest.raises(RequestError, match="a prompt is empty"):
        engine.stream(state, [], max_new_tokens=2, stop_ids=[], tell=print)


@pytest.mark.slow
def test_drawn_tokens_follow_the_softmax_at_the_temperature(engine: JaxEngine, state: dict) -> None:
    """10,240 first tokens against the distribution that they are sampled from; the greedy one is not all there is."""
    prompt, temperature = [3, 1, 4, 1, 5], 0.7
    scores = our_logits(engine, state, np.array([prompt], np.int32))[0, -1].astype(np.float64) / temperature
    expected = np.exp(scores - scores.max())
    expected /= expected.sum()
    count = 10_240
    answers = engine.sample(state, [prompt] * count, max_new_tokens=1, stop_ids=[], temperature=temperature,
                            seeds=range(count))
    found = np.bincount([answer.tokens[0] for answer in answers], minlength=61)
    assert expected.max() < 0.9
    assert chisquare(found, expected * count).pvalue > 1e-4


def test_what_cannot_be_drawn_is_refused(engine: JaxEngine, state: dict) -> None:
    assert isinstance(engine, Sampler)
    for temperature, seeds, said in ((0.0, [1], "above 0"), (1.0, [], "one per prompt"), (1.0, [2 ** 32], "below 2")):
        with pytest.raises(RequestError, match=said):
            engine.sample(state, [[1]], max_new_tokens=2, stop_ids=[], temperature=temperature, seeds=seeds)
    with pytest.raises(RequestError, match="at least one token"):
        engine.generate(state, [[]], max_new_tokens=2, stop_ids=[])
