"""Prompts that are read some at a time are answered as those that are read at once, on both engines."""

from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import request, tiny_shape
from workings.engines import prefill
from workings.engines.jax.engine import JaxEngine
from workings.engines.torch.engine import TorchEngine


def test_how_many_are_read_at_a_time() -> None:
    """256 MiB hold 64 prompts of 1,024 tokens with an inner width of 2,048 in bfloat16; one is read in any case."""
    shape = tiny_shape("gemma", mlp_width=2048)
    assert prefill.prompts_at_a_time(shape, 1024, 2) == 64
    assert prefill.prompts_at_a_time(shape, 1025, 2) == 63
    assert prefill.prompts_at_a_time(tiny_shape("gemma4", mlp_width=1024, shared_mlp_width=2048), 1024, 4) == 32
    assert prefill.prompts_at_a_time(shape, 1 << 20, 2) == 1


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
        opened = engine.open(asked)  # a program is made once an engine
        state = opened.init(4)
        greedy = opened.generate(state, prompts, max_new_tokens=6, stop_ids=[])
        found.append((greedy, opened.sample(state, prompts, max_new_tokens=6, stop_ids=[], temperature=1.0,
                                            seeds=range(10))))
    assert prefill.prompts_at_a_time(asked.shape, 14, 4) < 10
    assert found[0] == found[1]
    for whole, part in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(part.log_probs, whole.log_probs, atol=1e-5)
