"""Objectives on both engines: values and gradients against an independent computation, and the seam around them."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.objective_oracle import expected_step
from tests.engines.tiny import random_batch, request, tiny_shape, with_signals, with_top_tokens
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.base import AdapterEngine, EngineRequest
from workings.engines.jax.engine import JaxEngine
from workings.engines.torch.engine import TorchEngine
from workings.errors import RequestError
from workings.models.batch import Batch
from workings.objectives.policy_gradient import ADVANTAGE, PolicyGradient
from workings.objectives.top_tokens import TopTokens

ENGINES = {"jax": JaxEngine, "torch": TorchEngine}
OBJECTIVES = {
    "grpo with a reference": PolicyGradient(kl_beta=0.3, normalize="sequences"),
    "gspo": PolicyGradient(ratio="sequence", normalize="sequences", clip_low=0.05, clip_high=0.05),
    "hot": PolicyGradient(temperature=1.7),
    "top tokens": TopTokens(top_k=5)}


def opened(name: str, **changes: Any) -> tuple[Any, Any, EngineRequest]:
    """An engine, and a state with the weights that seed 0 draws in it."""
    asked = request(tiny_shape("gemma2"), **changes)
    engine = ENGINES[name].open(asked)
    return engine, engine.init(0), asked


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [pytest.param(0, marks=pytest.mark.full), 5])
@pytest.mark.parametrize("name", ENGINES)
def test_log_probs_are_those_of_the_softmax_of_all_logits(name: str, chunk: int) -> None:
    engine, state, asked = opened(name, memory=MemoryConfig(loss_chunk=chunk))
    batch = random_batch(asked.shape, micro=2)
    found = engine.log_probs(state, batch)
    for micro in range(2):
        one = Batch.of({key: x[micro:micro + 1] for key, x in batch.arrays.items()})
        all_of_them = np.asarray(jax.nn.log_softmax(engine.logits(state, one)))
        expected = np.take_along_axis(all_of_them, one.targets[0][..., None], -1)[..., 0]
        np.testing.assert_allclose(found[micro], np.where(one.loss_mask[0] > 0, expected, 0), atol=2e-5)
    evaluated = engine.evaluate(state, Batch.of({key: x[:1] for key, x in batch.arrays.items()}))
    np.testing.assert_allclose(evaluated.loss_sum, -found[0].sum(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chunk"), [
    ("grpo with a reference", 5), ("gspo", 0), ("top tokens", 5), *(
        pytest.param(*case, marks=pytest.mark.full) for case in (("hot", 0), ("top tokens", 0)))])
def test_both_engines_take_the_step_that_all_logits_imply(name: str, chunk: int, tmp_path: Any) -> None:
    """Value, gradient and metrics of the first step; then both take two further ones."""
    ours, state, asked = opened("jax", objective=OBJECTIVES[name], memory=MemoryConfig(loss_chunk=chunk))
    ours.export(state, tmp_path)
    theirs = TorchEngine.open(asked)
    other = theirs.load(tmp_path)
    plain = random_batch(asked.shape, micro=2)
    if name == "top tokens":
        batch = with_top_tokens(plain, *ours.most_likely(ours.init(1), plain, 5, 61))
    else:
        batch = with_signals(plain, ours.log_probs(state, plain), divided_by=17.0)
    value, norm, metrics = expected_step(ours, state, batch)
    for number in range(3):
        state, here = ours.step(state, batch, 1e-3)
        other, there = theirs.step(other, batch, 1e-3)
        if number == 0:
            np.testing.assert_allclose([here.loss, here.grad_norm], [value, norm], rtol=2e-5)
            assert here.metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)
            assert here.metrics.get("clip_fraction", 1.0) > 0
        np.testing.assert_allclose([there.loss, there.grad_norm], [here.loss, here.grad_norm], rtol=2e-4, atol=1e-6)
        assert there.metrics == pytest.approx(dict(here.metrics), rel=1e-3, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("on", [pytest.param(False, marks=pytest.mark.full), True], ids=["off", "on"])
@pytest.mark.parametrize("name", ENGINES)
def test_a_step_says_the_log_probs_that_it_computed(name: str, on: bool) -> None:
    """Of two micro batches, with `memory.cpu_optimizations` off and on, at all positions and at loss positions."""
    engine, state, asked = opened(name, objective=PolicyGradient(), cpu_optimizations=on)
    plain = random_batch(asked.shape, micro=2)
    most = int(plain.loss_mask.sum(-1).max())
    for batch in (plain, plain.with_loss_positions(most), random_batch(asked.shape, seed=1).with_loss_positions(8)):
        assert most < 12, "loss positions are fewer than positions"
        before = engine.log_probs(state, batch)
        state, result = engine.step(state, with_signals(batch, before), 1e-2)
        assert (result.log_probs.shape, result.log_probs.dtype) == (batch.tokens.shape, np.float32)
        np.testing.assert_allclose(result.log_probs, before, atol=1e-5)
        assert np.abs(engine.log_probs(state, batch) - before).max() > 1e-3
        np.testing.assert_array_equal(result.log_probs != 0, batch.loss_mask > 0)


LORA, QLORA = LoraConfig(name="lora", rank=4, alpha=8), QloraConfig(name="qlora", rank=4, alpha=8)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "optimized"), [
    ("jax", LORA, True), ("torch", LORA, False),
    *(pytest.param(name, QLORA, False, marks=pytest.mark.full) for name in ENGINES)])
def test_without_its_adapters_a_trained_model_is_the_first_one(name: str, method: Any, optimized: bool) -> None:
    """Also after further steps, of the state that they return; the state itself trains on as if no one had asked.

    With the optimizations of a CPU, in a model with adapters in several stacks of layers.
    """
    shape = tiny_shape("gemma4") if optimized else tiny_shape("gemma", width=64, mlp_width=128, head_dim=16)
    asked = request(shape, method=method, objective=PolicyGradient(), cpu_optimizations=optimized)
    engine = ENGINES[name].open(asked)
    assert isinstance(engine, AdapterEngine)
    found = []
    for ask in (True, False):
        state, plain = engine.init(0), random_batch(asked.shape, micro=2)
        first = engine.log_probs(state, plain)
        batch = with_signals(plain, first)
        for _ in range(3):
            state, result = engine.step(state, batch, 1e-2)
            if ask:
                below = engine.log_probs(engine.without_adapters(state), plain)
                np.testing.assert_allclose(below, first, atol=1e-6)
        assert np.abs(engine.log_probs(state, plain) - first).max() > 1e-2
        found.append([result.loss, result.grad_norm])
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.full), 0.6])
def test_what_was_drawn_has_the_log_probability_it_is_given(name: str, temperature: float) -> None:
    """So that the ratio of a fresh completion is 1, regardless of the temperature."""
    engine, state, _ = opened(name, objective=PolicyGradient(temperature=temperature))
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    drawn = engine.sample(state, prompts, max_new_tokens=6, stop_ids=[11, 12, 13, 14, 15],
                          temperature=temperature, seeds=[1, 2, 3])
    for prompt, completion in zip(prompts, drawn, strict=True):
        ended = [] if completion.stop_token is None else [completion.stop_token]
        assert (completion.finish_reason == "stop") == bool(ended)
        whole = np.array([[[*prompt, *completion.tokens, *ended]]], np.int32)
        targets = np.roll(whole, -1, -1)
        mask = np.zeros(whole.shape, np.float32)
        mask[..., len(prompt) - 1:-1] = 1
        batch = Batch(tokens=whole, targets=(targets * mask).astype(np.int32), loss_mask=mask,
                      positions=np.arange(whole.size, dtype=np.int32).reshape(whole.shape),
                      segment_ids=np.ones_like(whole))
        expected = engine.log_probs(state, batch)[mask > 0]
        np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)
    assert engine.generate(state, prompts, max_new_tokens=2, stop_ids=[])[0].log_probs == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_model_that_is_not_trained_has_no_optimizer(name: str, tmp_path: Any) -> None:
    engine, state, asked = opened(name)
    engine.export(state, tmp_path)
    batch = random_batch(asked.shape)
    for frozen in (engine.init(0, trainable=False), engine.load(tmp_path, trainable=False)):
        moments = frozen.get("moments", {}) if isinstance(frozen, dict) else frozen.moments
        assert not moments
        np.testing.assert_array_equal(engine.log_probs(frozen, batch), engine.log_probs(state, batch))
        assert engine.generate(frozen, [[1, 2]], max_new_tokens=3, stop_ids=[]) == \
            engine.generate(state, [[1, 2]], max_new_tokens=3, stop_ids=[])


@pytest.mark.parametrize("name", ENGINES)
def test_missing_signals_and_missing_adapters_are_refused(name: str) -> None:
    engine, state, asked = opened(name, objective=PolicyGradient())
    with pytest.raises(RequestError, match="method lora or qlora"):
        engine.without_adapters(state)
    with pytest.raises(RequestError, match=ADVANTAGE):
        engine.step(state, random_batch(asked.shape), 1e-3)


@pytest.mark.parametrize("name", ENGINES)
def test_a_batch_without_supervised_tokens_has_no_loss(name: str) -> None:
    """The last held-out batch of several processes may have a share that is all padding."""
    engine, state, asked = opened(name, precision=PrecisionConfig(parameters="bf16", compute="fp32"))
    plain = random_batch(asked.shape)
    empty = replace(plain, loss_mask=np.zeros_like(plain.loss_mask))
    assert engine.evaluate(state, empty).loss_sum == 0
    assert not engine.log_probs(state, empty).any()
