"""How the PyTorch engine draws a token: by one uniform number of its row's own, among sums of probabilities."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.engines.tiny import request, tiny_shape
from workings.config.method import FullConfig, LoraConfig, QloraConfig
from workings.config.training import PrecisionConfig
from workings.engines.base import Completion
from workings.engines.torch import decode
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.generate import sampled, uniform_numbers
from workings.models.registry import families

CPU, FIRST = torch.device("cpu"), torch.tensor([0])


def picked(probabilities: list[float], uniform: list[float], temperature: float = 1.0) -> tuple[list[int], list[float]]:
    """Tokens of rows with the same probabilities, and their log probabilities."""
    logits = torch.tensor([probabilities]).log().expand(len(uniform), len(probabilities))
    rows = torch.arange(len(uniform))
    tokens, log_probs = sampled(temperature, torch.tensor([uniform], dtype=torch.float64))(logits, FIRST, rows)
    return tokens.tolist(), log_probs.tolist()


def test_a_number_picks_the_token_whose_share_it_falls_into() -> None:
    """Shares 1/2, 1/4, 1/4; at temperature 1/2 they are squared and normalized: 2/3, 1/6, 1/6."""
    most = 1 - 2.0**-53  # the largest number below 1
    tokens, log_probs = picked([0.5, 0.25, 0.25], [0.0, 0.4999, 0.5001, 0.7499, 0.7501, most])
    assert tokens == [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(log_probs, np.log([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]), rtol=1e-7)
    tokens, log_probs = picked([0.5, 0.25, 0.25], [0.666, 0.667, 0.833, 0.834], temperature=0.5)
    assert tokens == [0, 1, 1, 2]
    np.testing.assert_allclose(np.exp(log_probs), [2 / 3, 1 / 6, 1 / 6, 1 / 6], rtol=1e-6)


def test_what_is_impossible_is_never_picked_and_what_is_no_number_stays_in_range() -> None:
    assert picked([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 1 - 2.0**-53])[0] == [1, 3, 3]
    tokens, log_probs = picked([0.5, float("nan"), 0.5, 0.5], [0.0, 0.9])
    assert all(0 <= token < 4 for token in tokens)
    assert np.isnan(log_probs).all()


def test_numbers_follow_from_the_rows_own_seed_and_from_the_number_of_the_token() -> None:
    together = uniform_numbers([3, 2**32 - 1, 7], 5, CPU)
    assert uniform_numbers([2**32 - 1], 9, CPU)[:5, 0].tolist() == together[:, 1].tolist()
    many = uniform_numbers(range(400), 10, CPU)
    assert len(many.unique()) == many.numel()


def test_draws_with_a_vocabulary_of_gemma_s_size() -> None:
    """Probabilities of a few billionths: their sums end at the whole, and halves are where they belong."""
    logits = torch.zeros(3, 262_144)
    pick = sampled(1.0, torch.tensor([[0.0, 0.5, 1 - 2.0**-53]], dtype=torch.float64))
    tokens, log_probs = pick(logits, FIRST, torch.arange(3))
    assert tokens.tolist() == [0, 131_072, 262_143]
    np.testing.assert_allclose(log_probs, -np.log(262_144), rtol=1e-12)


@pytest.mark.parametrize("family", ["gemma2", pytest.param("gemma4", marks=pytest.mark.full)])
def test_rows_that_are_done_are_left_out_and_change_no_other(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixteen completions most stop early; each is what it would be if none stopped, up to its stop token."""
    engine = TorchEngine.open(request(tiny_shape(family)))
    state, numbers = engine.init(0), np.random.default_rng(0)
    prompts = [numbers.integers(0, 61, n).tolist() for n in numbers.integers(1, 9, 16)]

    def ask(stop_ids: list[int]) -> list[Completion]:
        return engine.sample(state, prompts, max_new_tokens=12, stop_ids=stop_ids, temperature=1.5, seeds=range(16))

    stops, whole, computed = [*range(15)], ask([]), list[int]()
    inner = decode.hidden_states
    monkeypatch.setattr(decode, "hidden_states", lambda model, tokens, *others: computed.append(len(tokens)) or inner(
        model, tokens, *others))
    stopped = ask(stops)
    for one, other in zip(stopped, whole, strict=True):
        expected = Completion.of(other.tokens, stops, other.log_probs)
        assert one == expected
        np.testing.assert_allclose(one.log_probs, expected.log_probs, atol=1e-5)
    assert computed == sorted(computed, reverse=True)
    assert computed[0] == 16
    # In the prompts' own turn and in that of each new token but the last, a row is computed until half are done.
    assert sum(computed) < 2 * sum(len(one.log_probs) for one in stopped)
    assert computed[-1] <= 4


class HostRequests(TorchDispatchMode):
    """Operations that make the host wait for a card, or bring it numbers: what a recorded graph must not contain."""

    forbidden = ("aten.lift_fresh", "aten._local_scalar_dense", "aten.nonzero", "aten.equal", "aten.is_nonzero",
                 "aten.repeat_interleave.Tensor", "aten.masked_select", "aten._unique2")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        by_mask = name.startswith("aten.index") and any(
            isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in tree_leaves(args[1:2]))
        if name.startswith(self.forbidden) or by_mask:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


METHODS = {"full": FullConfig(name="full"), "lora": LoraConfig(name="lora"), "qlora": QloraConfig(name="qlora")}
DECODED = [(family.name, "full") for family in families() if family.name != "qwen3_5"] + [
    ("llama", "lora"), ("llama", "qlora"), ("gemma4", "lora")]


@pytest.mark.parametrize(("family", "method"), DECODED)
def test_a_further_token_asks_the_host_nothing(family: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card records it as a graph, where each of these operations is an error."""
    engine = TorchEngine.open(request(tiny_shape(family), precision=PrecisionConfig(compute="bf16"),
                                      method=METHODS[method]))
    state, asked, inner = engine.init(0), list[str](), decode.Decoder.advance

    def watched(decoder: decode.Decoder) -> None:
        if int(decoder.count) == 1:  # the first one may look up what is then kept
            return inner(decoder)
        with HostRequests() as requests:
            inner(decoder)
        asked.extend(requests.seen)
        return None

    monkeypatch.setattr(decode.Decoder, "advance", watched)
    found = engine.sample(state, [[5, 9, 33], [8]], max_new_tokens=4, stop_ids=[61], temperature=1.5, seeds=range(2))
    assert [len(one.tokens) for one in found] == [4, 4]
    assert asked == []
