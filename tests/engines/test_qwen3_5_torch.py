"""Qwen 3.5 on the PyTorch engine: its layers with a state, against plain transformers and against themselves.

What it has in common with other families is compared in `test_torch_engine` and `test_every_family_torch`.
"""

from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.qwen3_5 import modeling_qwen3_5

from tests.engines.tiny import our_logits, packed_batch
from tests.engines.torch_oracle import opened as form_opened
from tests.engines.torch_oracle import roughened
from workings.config.training import PrecisionConfig
from workings.engines.torch import generate
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.linear_attention import MODEL_TYPE, by_own_operations, delta_rule
from workings.engines.torch.lora import base_weights
from workings.errors import RequestError
from workings.objectives.preference import Preference

FORMS = ("4B", "state last")


def opened(form: str = "4B", **changes: Any) -> TorchEngine:
    return form_opened(f"qwen3.5 {form}", **changes)


def rows(count: int, length: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 61, (count, length)).astype(np.int32)


@pytest.mark.parametrize("length", [1, 64, 65, 200])
@pytest.mark.parametrize("begun", [False, True])
def test_states_and_their_gradients_are_those_of_transformers(length: int, begun: bool) -> None:
    draw = torch.Generator().manual_seed(length)
    sizes = [(2, length, 3, 8), (2, length, 3, 8), (2, length, 3, 5), (2, length, 3), (2, length, 3), (2, 3, 8, 5)]
    q, k, v, g, beta, first = (torch.randn(size, generator=draw) for size in sizes)
    given = [x.requires_grad_() for x in (q, k, v, -2 * g.abs(), beta.sigmoid(), first)]
    found = []
    for rule in (delta_rule, modeling_qwen3_5.torch_chunk_gated_delta_rule):
        rows, state = rule(*given[:5], initial_state=given[5] if begun else None, output_final_state=True,
                           use_qk_l2norm_in_kernel=True)
        total = (rows * torch.arange(rows.numel()).view_as(rows).sin()).sum() + state.square().sum()
        found.append([rows, state, *torch.autograd.grad(total, given[:5 + begun])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * float(theirs.detach().abs().max()))
    assert delta_rule(*given[:5])[1] is None


@pytest.mark.parametrize("form", FORMS)
def test_neither_later_tokens_nor_padding_reach_earlier_positions(form: str) -> None:
    engine = opened(form)
    state, tokens = roughened(engine), rows(2, 90)
    whole = our_logits(engine, state, tokens)
    for end in (1, 63, 64, 65):
        changed = np.concatenate([tokens[:, :end], rows(2, 90 - end, seed=7)], 1)
        np.testing.assert_allclose(our_logits(engine, state, changed)[:, :end], whole[:, :end], atol=2e-5)
        padded = np.concatenate([tokens[:, :end], np.zeros((2, 90 - end), np.int32)], 1)
        np.testing.assert_allclose(our_logits(engine, state, padded)[:, :end], whole[:, :end], atol=2e-5)
    # And what follows does see them: a state holds what came before.
    first = np.concatenate([rows(2, 1, seed=9), tokens[:, 1:]], 1)
    assert np.abs(our_logits(engine, state, first)[:, -1] - whole[:, -1]).max() > 1e-4


@pytest.mark.parametrize("form", FORMS)
def test_answers_of_prompts_together_are_those_of_each_alone(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of one prompt, prompts of several lengths (shorter than the filter, and longer than a chunk), and rows
    that end early: every token is the likeliest of one whole forward without a cache."""
    engine = opened(form)
    state = roughened(engine)
    prompts = [[3, 1], [3, 1], [5], [5], *[rows(1, 70)[0].tolist()] * 2, [9, 8], [9, 8]]
    taken: list[int] = []
    read = generate.prefill_prompts

    def watched(spec: Any, model: Any, tokens: torch.Tensor, lengths: torch.Tensor, *, new_slots: int,
                copies: int = 1) -> Any:
        assert len(set(lengths.tolist())) == 1, "padding would enter a state"
        taken.append(copies)
        return read(spec, model, tokens, lengths, new_slots=new_slots, copies=copies)

    monkeypatch.setattr(generate, "prefill_prompts", watched)
    answers = engine.generate(state, prompts, max_new_tokens=9, stop_ids=[])
    assert taken == [2, 2, 2]
    for prompt, answer in zip(prompts, answers, strict=True):
        row = np.array([prompt + answer.tokens], np.int32)
        assert answer.tokens == our_logits(engine, state, row)[0, len(prompt) - 1:-1].argmax(-1).tolist()
    # A row that stops is left out, and the others' states go on as they were.
    stop = answers[0].tokens[2]
    for answer, whole in zip(engine.generate(state, prompts, max_new_tokens=9, stop_ids=[stop]), answers, strict=True):
        end = whole.tokens.index(stop) if stop in whole.tokens else 9
        assert answer.tokens[:end] == whole.tokens[:end]
        assert answer.finish_reason == ("stop" if stop in whole.tokens else "length")


def test_prompts_that_are_read_some_at_a_time_are_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened()
    state, prompts = roughened(engine), rows(5, 9).tolist()
    together = engine.generate(state, prompts, max_new_tokens=6, stop_ids=[])
    monkeypatch.setattr(generate, "prompts_at_a_time", lambda *_: 2)
    assert engine.generate(state, prompts, max_new_tokens=6, stop_ids=[]) == together


def test_weights_stored_in_bf16_compute_in_fp32_with_a_cache_as_without() -> None:
    """What the filter before a state computes in decides, too: transformers takes its weight's format."""
    engine = opened(precision=PrecisionConfig(parameters="bf16", compute="fp32"))
    exact = opened()
    state, other = roughened(engine), exact.init(0)
    with torch.no_grad():
        for name, x in base_weights(other.model).items():
            assert isinstance(x, torch.Tensor)
            x.copy_(base_weights(state.model)[name])
    tokens = rows(2, 70)
    np.testing.assert_allclose(our_logits(engine, state, tokens), our_logits(exact, other, tokens), atol=1e-5)
    prompts = rows(2, 12).tolist()
    assert engine.generate(state, prompts, max_new_tokens=12, stop_ids=[]) == exact.generate(
        other, prompts, max_new_tokens=12, stop_ids=[])


def test_the_first_states_decay_at_many_rates() -> None:
    """Rates from 1 to 16, step sizes from a thousandth to a tenth: a token leaves a head 20 to 99.9 % of its state."""
    engine = opened(shape={"linear_value_heads": 64, "linear_key_heads": 64})
    found = {name.removeprefix("model.layers.0.linear_attn."): x.detach()
             for name, x in base_weights(engine.init(0).model).items() if isinstance(x, torch.Tensor)}
    rates, steps = found["A_log"].exp(), torch.nn.functional.softplus(found["dt_bias"])
    assert 1 <= rates.min() < 2 < 15 < rates.max() <= 16
    assert 1e-3 <= steps.min() < 2e-3 < 0.05 < steps.max() <= 0.1001
    assert torch.equal(found["norm.weight"], torch.ones(6))
    assert found["conv1d.weight"].std() == pytest.approx(0.5, rel=0.1)
    for seed in (0, 1):
        again = engine.init(seed).trained["model.layers.0.linear_attn.A_log"]
        assert torch.equal(again, found["A_log"]) == (seed == 0)


def test_kernels_of_other_packages_are_not_taken_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With them a run would be another program than the one that a plan traced."""
    def kernel(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel that was installed")

    expected = opened()
    prompt, tokens = [[3, 1, 4, 1]], rows(1, 20)
    for name in ("causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule",
                 "fused_recurrent_gated_delta_rule", "FusedRMSNormGated"):
        assert hasattr(modeling_qwen3_5, name), f"transformers calls {name} otherwise: see linear_attention.py"
        monkeypatch.setattr(modeling_qwen3_5, name, kernel)
    engine = opened()
    state, other = roughened(engine), roughened(expected)
    np.testing.assert_array_equal(our_logits(engine, state, tokens), our_logits(expected, other, tokens))
    assert engine.generate(state, prompt, max_new_tokens=4, stop_ids=[]) == expected.generate(
        other, prompt, max_new_tokens=4, stop_ids=[])
    assert modeling_qwen3_5.chunk_gated_delta_rule is kernel, "other code finds them as they were"


def test_a_transformers_that_calls_its_kernels_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(modeling_qwen3_5, "chunk_gated_delta_rule")
    with (pytest.raises(RequestError, match=r"it has no chunk_gated_delta_rule(?s:.*)pip install 'transformers==5"),
          by_own_operations(MODEL_TYPE)):
        pass


def test_rows_share_neither_a_sequence_nor_their_beginnings() -> None:
    engine = opened(cpu_optimizations=True, objective=Preference())
    assert not engine.spec.share_prefixes
    engine = opened()
    with pytest.raises(RequestError, match="several segments"):
        engine.step(engine.init(0), packed_batch(rows(1, 7)[0], rows(1, 9)[0]), 1e-3)
