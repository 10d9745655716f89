"""How prompts are read changes no answer, on both engines: some at a time, or once for several completions."""

from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import request, tiny_shape
from workings.engines import prefill
from workings.engines.base import Completion, GenerationShape
from workings.engines.jax import cache
from workings.engines.jax.aot_compile import padded_size
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.generate import prompt_batches
from workings.engines.torch import generate
from workings.engines.torch.engine import TorchEngine


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "family"), [
    (JaxEngine, "gemma2"), (TorchEngine, "gemma4"),
    *(pytest.param(*case, marks=pytest.mark.full) for case in ((JaxEngine, "gemma4"), (TorchEngine, "gemma2")))])
def test_in_parts_prompts_have_the_same_answers(engine: Any, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds of layers and, in Gemma 4, layers that share keys; ten prompts, eight to sixteen of them in two parts.

    Greedy tokens are equal, and log probabilities of drawn ones to a few bits of float32.
    """
    asked, draw = request(tiny_shape(family)), np.random.default_rng(0)
    prompts = [draw.integers(0, 61, n).tolist() for n in (3, 14, 9, 5, 11, 9, 3, 3, 2, 11)]
    found = []
    for most in (prefill.LARGEST_ACTIVATION, 16 * 4 * max(asked.shape.mlp_width_of(i) for i in range(2)) * 8):
        monkeypatch.setattr(prefill, "LARGEST_ACTIVATION", most)
        # As on a GPU, where parts are written in another order.
        monkeypatch.setattr(cache, "fills_by_head", lambda layout: True)
        opened = engine.open(asked)  # a program is made once an engine
        state = opened.init(4)
        greedy = opened.generate(state, prompts, max_new_tokens=6, stop_ids=[])
        found.append((greedy, opened.sample(state, prompts, max_new_tokens=6, stop_ids=[], temperature=1.0,
                                            seeds=range(10))))
    assert prefill.prompts_at_a_time(asked.shape, 14, 4) < 10
    assert found[0] == found[1]
    for whole, part in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(part.log_probs, whole.log_probs, atol=1e-5)


def test_for_how_many_completions_a_prompt_is_read_once() -> None:
    one, other = [1, 2], [3]
    assert prefill.copies_of_each([one] * 8 + [other] * 8, 128) == 8
    assert prefill.copies_of_each([one] * 16 + [other] * 8, 128) == 8, "the same prompt twice"
    assert prefill.copies_of_each([one] * 6 + [other] * 4, 128) == 2, "a group that a batch cut"
    assert prefill.copies_of_each([one, other] * 4, 128) == 1, "no neighbours"
    assert prefill.copies_of_each([one] * 12, 7) == 6, "of a larger group a part at a time"
    assert prefill.copies_of_each([one] * 3, 0) == prefill.copies_of_each([], 128) == 1


@pytest.mark.parametrize(("rows", "group", "devices", "read"), [
    (128, 8, 1, 16), (128, 8, 8, 16), (24, 8, 1, 4), (24, 8, 8, 16), (126, 6, 1, 21), (120, 6, 8, 16), (16, 1, 1, 16),
    (64, 64, 8, 8)])
def test_batches_hold_whole_groups_and_are_those_that_are_planned(rows: int, group: int, devices: int,
                                                                  read: int) -> None:
    """On several devices each has its own prompts, for which a group may be read in parts."""
    prompts = [[number] * 5 for number in range(rows // group) for _ in range(group)]
    copies = prefill.copies_of_each(prompts, rows // devices)
    batches = prompt_batches(prompts, devices, copies=copies)
    assert [i for batch in batches for i in batch.indices] == [*range(rows)]
    for batch in batches:
        every = np.repeat(batch.tokens[:, -1], copies)
        assert every[batch.real].tolist() == [prompts[i][0] for i in batch.indices]
        assert (batch.lengths[batch.real] == 5).all()
        assert len(batch.tokens) % devices == 0
        assert batch.real.size == batch.lengths.size == len(every) <= 128
    assert batches[0].tokens.shape[0] == read
    assert padded_size(GenerationShape(rows, 5, 4), devices, group) == ((read, 16, 4 * 4), batches[0].real.size)


@pytest.mark.parametrize(("engine", "family"), [
    pytest.param(JaxEngine, "gemma2", marks=pytest.mark.slow), (TorchEngine, "gemma2"),
    *(pytest.param(*case, marks=pytest.mark.full) for case in ((JaxEngine, "gemma4"), (TorchEngine, "gemma4")))])
def test_a_prompt_that_is_read_once_has_the_completions_of_one_that_is_read_for_each(engine: Any, family: str) -> None:
    """Four completions of each of five prompts, drawn side by side, in turns, and a few alone.

    Tokens are equal; log probabilities but for the last bits, which depend on how many prompts are read at once.
    """
    opened, draw = engine.open(request(tiny_shape(family))), np.random.default_rng(0)
    state = opened.init(4)
    prompts = [draw.integers(0, 61, n).tolist() for n in (3, 14, 9, 5, 11)]

    def ask(which: list[int]) -> dict[int, Completion]:
        drawn = opened.sample(state, [prompts[i // 4] for i in which], max_new_tokens=8, stop_ids=[60],
                              temperature=1.0, seeds=which)
        return dict(zip(which, drawn, strict=True))

    together, in_turns = ask([*range(20)]), ask([4 * prompt + number for number in range(4) for prompt in range(5)])
    assert together == in_turns
    for few in ([0], [9, 7]):
        assert ask(few) == {i: together[i] for i in few}
    for i, one in together.items():
        np.testing.assert_allclose(one.log_probs, in_turns[i].log_probs, atol=1e-5)
    assert len({tuple(each.tokens) for each in together.values()}) > 15


def test_each_prompt_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TorchEngine.open(request(tiny_shape()))
    state, read = engine.init(0), []
    inner = generate.read_prompts
    monkeypatch.setattr(generate, "read_prompts", lambda spec, model, tokens, *others: (
        read.append(tokens.shape), inner(spec, model, tokens, *others))[1])
    prompts = [[number + 1] * (number % 3 + 1) for number in range(40) for _ in range(6)]
    asked: dict[str, Any] = {"max_new_tokens": 2, "stop_ids": [], "temperature": 1.0, "seeds": range(240)}
    assert len(engine.sample(state, prompts, **asked)) == 240
    assert [size[0] for size in read] == [21, 19], "126 completions are the most of whole groups"
