"""What the PyTorch engine does to save memory: the same numbers as the plain ways, and less memory."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.engines.tiny import request, tiny_shape
from workings.config.training import AdafactorConfig, AdamW8bitConfig, MemoryConfig
from workings.engines.torch import loss
from workings.engines.torch.backward_optimizer import refuse_conflicts
from workings.engines.torch.loss import linear_cross_entropy
from workings.engines.torch.optimizers import base, make_optimizer, update_tensor
from workings.engines.torch.optimizers.base import UpdateContext
from workings.errors import RequestError


def loss_inputs(dtype: Any = torch.float32) -> tuple[Any, ...]:
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 12, 32, generator=draw).to(dtype).requires_grad_()
    head = (torch.randn(61, 32, generator=draw) / 3).to(dtype).requires_grad_()
    targets = torch.randint(0, 61, (4, 12), generator=draw)
    weights = (torch.rand(4, 12, generator=draw) < 0.5).float()
    return hidden, head, targets, weights


def plain_loss(hidden: Any, head: Any, targets: Any, weights: Any, cap: float) -> Any:
    """PyTorch's own cross entropy over all logits."""
    logits = hidden.double() @ head.double().T
    logits = cap * torch.tanh(logits / cap) if cap else logits
    every = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (every * weights.flatten()).sum() / 7


@pytest.mark.parametrize("way", ["positions", "vocabulary", "kernel"])
@pytest.mark.parametrize("chunk", [0, 5, 48])
@pytest.mark.parametrize("cap", [0.0, 3.0])
def test_the_loss_in_chunks_equals_the_plain_loss(monkeypatch: pytest.MonkeyPatch, cap: float, chunk: int,
                                                  way: str) -> None:
    """Over positions, over the vocabulary, and by the plain version of the kernel of a card (`test_card_kernels`)."""
    monkeypatch.setattr(loss, "goes_over_positions", lambda *which: way != "vocabulary")
    hidden, head, targets, weights = loss_inputs()
    expected, how = plain_loss(hidden, head, targets, weights, cap), {"chunk": chunk, "soft_cap": cap,
                                                                      "kernel": way == "kernel"}
    ours = linear_cross_entropy(hidden, head, targets, weights, **how) / 7
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(torch.autograd.grad(ours, (hidden, head)), torch.autograd.grad(expected, (hidden, head)),
                            strict=True):
        assert (mine - theirs).abs().max() <= 2e-6 * theirs.abs().max()
    log_probs = loss.linear_log_probs(hidden, head, targets, **how)
    assert -(log_probs * weights).sum().item() / 7 == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(("compute", "stored", "kernel", "loss_off", "off"), [
    # Logits and their gradient are rounded to bf16; or the gradient alone is.
    (torch.bfloat16, torch.float32, True, 2 ** -7, 2 ** -6), (torch.float32, torch.bfloat16, False, 1e-6, 2 ** -8)])
def test_a_head_of_another_format_is_never_converted_whole_without_the_kernel(
        compute: Any, stored: Any, kernel: bool, loss_off: float, off: float) -> None:
    hidden, head, targets, weights = loss_inputs()
    hidden, head = hidden.detach().to(compute), head.detach().to(stored).requires_grad_()
    assert loss.goes_over_positions(hidden, head, kernel) is kernel
    ours = linear_cross_entropy(hidden, head, targets, weights / 7, chunk=5, soft_cap=0.0, kernel=kernel)
    expected = plain_loss(hidden, head.to(torch.bfloat16), targets, weights, 0.0)
    assert ours.item() == pytest.approx(expected.item(), rel=loss_off)
    mine, theirs = (torch.autograd.grad(x, head)[0].float() for x in (ours, expected))
    assert (mine - theirs).abs().max() <= off * theirs.abs().max()


def start(matrix: tuple[int, int] = (70, 90)) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    sizes: dict[str, Any] = {"a.weight": matrix, "norm.weight": 5}
    return {name: draw.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def gradients(step: int, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(step)
    return {name: (draw.normal(size=x.shape) * 10.0 ** -(step % 4)).astype(np.float32) for name, x in values.items()}


def assert_equal(config: Any, oracle: Any, steps: int, tolerance: float) -> dict[str, Any]:
    """Our updates at 3e-2 are those of an oracle, which gets parameters by name; our moments."""
    values = {name: torch.tensor(x) for name, x in start().items()}
    parameters = {name: torch.nn.Parameter(x.clone()) for name, x in values.items()}
    optimizer, oracles = make_optimizer(config, torch.float32), oracle(parameters)
    moments = {name: optimizer.init(x) for name, x in values.items()}
    for step in range(1, steps + 1):
        for name, grad in gradients(step, values).items():
            parameters[name].grad = torch.tensor(grad)
            update_tensor(optimizer, name, values[name], torch.tensor(grad), moments[name],
                          UpdateContext(step=step, learning_rate=3e-2))
        for theirs in oracles:
            theirs.step()
    for name, expected in parameters.items():
        np.testing.assert_allclose(values[name].numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    return moments


@pytest.mark.parametrize("block", [100, 2 ** 22])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adafactor_equals_transformers_over_ten_steps(monkeypatch: pytest.MonkeyPatch, block: int,
                                                      decay: float) -> None:
    """Row by row and whole, a matrix and a vector; transformers decays vectors too, we do not."""
    monkeypatch.setattr(base, "BLOCK", block)
    theirs = partial(transformers.Adafactor, lr=3e-2, scale_parameter=False, relative_step=False, warmup_init=False)
    assert_equal(AdafactorConfig(name="adafactor", weight_decay=decay), lambda parameters: [
        theirs([parameters["a.weight"]], weight_decay=decay), theirs([parameters["norm.weight"]])], 10, 1e-6)


def test_adamw_in_8_bits_equals_bitsandbytes() -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes")
    moments = assert_equal(AdamW8bitConfig(name="adamw8bit"), lambda parameters: [
        bitsandbytes.optim.AdamW8bit([*parameters.values()], lr=3e-2, weight_decay=0.0)], 5, 1e-5)
    assert moments["a.weight"]["exp_avg"].dtype == torch.uint8
    assert moments["norm.weight"]["exp_avg"].dtype == torch.float32


def test_bfloat16_weights_are_rounded_at_random_or_from_a_master() -> None:
    """At nearest a small update changes nothing; the count says so; the same seed draws the same numbers."""
    optimizer = make_optimizer(AdafactorConfig(name="adafactor"), torch.float32)
    grad = torch.ones(64, 64)
    found = {}
    for rounding in ("nearest", "stochastic", "stochastic again", "master_fp32"):
        param = torch.ones(64, 64, dtype=torch.bfloat16)
        slots = optimizer.init(param) | ({"master": param.float()} if rounding == "master_fp32" else {})
        changed = update_tensor(optimizer, "a", param, grad, slots, UpdateContext(
            step=1, learning_rate=1e-3, rounding=rounding.split()[0], seed=7))
        found[rounding] = param.float()
        assert int(changed) == int((param != 1).sum())
    assert (found["nearest"] == 1).all()
    assert (slots["master"] - (1 - 1e-3)).abs().max() < 1e-6
    assert torch.equal(found["stochastic"], found["stochastic again"])
    assert found["stochastic"].mean().item() == pytest.approx(1 - 1e-3, abs=2e-4)


def test_an_optimizer_in_backward_refuses_what_needs_all_gradients() -> None:
    asked = request(tiny_shape(), memory=MemoryConfig(optimizer_in_backward=True))
    clipped = replace(asked, optimizer=AdafactorConfig(name="adafactor", clip_norm=1.0))
    with pytest.raises(RequestError, match=r"optimizer\.clip_norm: 1 and batch\.accumulation: 4"):
        refuse_conflicts(clipped, 4)
    refuse_conflicts(asked, 1)
    refuse_conflicts(request(tiny_shape()), 4)
