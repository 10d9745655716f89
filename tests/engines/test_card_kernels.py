"""The kernels for NVIDIA cards: on a card, or in Triton's interpreter, against their plain versions; those against
PyTorch; and which modules of transformers compute by them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.training import PrecisionConfig
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.step import micro_batch_objective, to_rows
from workings.engines.torch.triton import check, operations

CPU = torch.device("cpu")
KERNELS = """
import json, torch
from workings.engines.torch.triton import check, kernels, operations
fill = operations._fill
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def by_kernels(compute, *arguments):
    operations._fill = lambda x, kernel, plain: kernel(kernels)
    found = compute(*arguments)
    operations._fill = fill
    return found
apart, loss = {}, []
for name, compute in check.CASES.items():
    plain, there = compute(torch.device("cpu")), by_kernels(compute, device)
    apart[name] = max(float((a - b.cpu()).abs().max() / a.abs().max()) for a, b in zip(plain, there, strict=True))
for vocabulary, targets, cap, dtype in ((37, 1, 0.0, torch.float32), (300, 3, 5.0, torch.float32),
                                        (9000, 1, 0.0, torch.bfloat16), (20000, 2, 30.0, torch.bfloat16)):
    for gradient in (False, True):
        random = torch.Generator().manual_seed(0)
        logits = torch.randn(4, vocabulary, generator=random).mul(3).to(dtype)
        index = torch.randint(0, vocabulary, (4, targets), generator=random)
        weights = torch.rand(4, targets, generator=random)
        plain, there = logits.clone(), logits.clone().to(device)
        expected = operations.block_loss_(plain, index, weights, cap, gradient)
        log_z = by_kernels(operations.block_loss_, there, index.to(device), weights.to(device), cap, gradient)
        off = (there.cpu().float() - plain.float()).abs().max() / plain.float().abs().max()
        loss.append({"narrow": dtype == torch.bfloat16, "changed": not torch.equal(plain, logits), "of": gradient,
                     "log_z": float((log_z.cpu() - expected).abs().max()), "logits": float(off)})
print(json.dumps([apart, loss]))
"""


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton, which PyTorch for CUDA brings")
def test_kernels_compute_what_their_plain_versions_do(run_python) -> None:
    # Triton looks for its interpreter when it is imported, so this takes a child.
    done = run_python("-c", KERNELS, environment={} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    apart, loss = json.loads(done.stdout)
    assert all(each < check.CLOSE for each in apart.values())
    assert apart["AdamW"] < 1e-5
    for case in loss:
        assert case["changed"] is case["of"]
        assert case["log_z"] < 1e-5
        assert case["logits"] <= (2 ** -7 if case["narrow"] else 1e-6)


def test_adamw_updates_as_pytorch_does_and_counts_what_changed() -> None:
    random = torch.Generator().manual_seed(0)
    param = torch.randn(40, generator=random)
    still = param.clone().requires_grad_()
    theirs = torch.optim.AdamW([still], lr=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)
    mean, square = torch.zeros(40), torch.zeros(40)
    for step in (1, 2, 3):
        grad = torch.randn(40, generator=random)
        grad[:10] = 0  # and no decay of zeros, so that these stay
        param[:10] = 0
        with torch.no_grad():
            still[:10] = 0
        still.grad = grad * 0.5
        theirs.step()
        changed = operations.adamw(param, grad, mean, square, scale=0.5, step=step, rate=0.1, beta1=0.9, beta2=0.95,
                                   epsilon=1e-8, decay=0.01)
        assert changed.item() == 30
        assert torch.allclose(param, still, atol=1e-6)


@pytest.fixture
def found_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """The finding about a card of this capability, computed on the CPU."""
    def found(installed: str | None = "triton", capability: tuple[int, int] = (9, 0)) -> str:
        monkeypatch.setattr(check, "find_spec", lambda name: installed)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        check.kernel_problem.cache_clear()
        return check.kernel_problem(CPU)

    yield found
    check.kernel_problem.cache_clear()


def test_why_a_card_has_no_kernels_is_said(found_here: Callable[..., str]) -> None:
    assert "Triton is not installed" in found_here(installed=None)
    assert "no bf16" in found_here(capability=(7, 5))


def test_a_kernel_that_fails_or_computes_something_else_is_found(
        monkeypatch: pytest.MonkeyPatch, found_here: Callable[..., str]) -> None:
    """Its plain version is right, and then is not."""
    right, calls = check.CASES["norm"], []

    def second_is_wrong(device: torch.device) -> object:
        calls.append(1)
        return [x * (1 + 0.1 * (len(calls) - 1)) for x in right(device)]

    def fails(device: torch.device) -> object:
        raise RuntimeError("Failed to find C compiler.\nMore of it.")

    for compute, said in ((right, ""), (second_is_wrong, "off by 0.1"), (fails, "Failed to find C compiler.")):
        monkeypatch.setitem(check.CASES, "norm", compute)
        found = found_here()
        assert said in found
        assert found.startswith("norm") is bool(found) is bool(said)


def _gradients(family: str, *, kernels: bool) -> dict[str, torch.Tensor]:
    engine = TorchEngine.open(request(tiny_shape(family)))
    state = engine.init(0)
    if kernels:
        check.use_kernels(state.model, engine.spec.shape)
        assert any(isinstance(each, check.NormByKernel) for each in state.model.modules())
        # Gemma 4's norms of values have no weight, and Qwen 3.5's of a state are no such norms.
        left = {type(each).__name__ for each in state.model.modules() if type(each).__name__.endswith("Norm")}
        assert left <= {"Gemma4RMSNorm", "Qwen3_5RMSNormGated"}
    for rows in to_rows(engine.spec, random_batch(engine.spec.shape)):
        micro_batch_objective(engine.spec, state.model, rows, 10.0)[0].backward()
    return {name: param.grad for name, param in state.trained.items() if param.grad is not None}


@pytest.mark.parametrize("family", ["gemma3", "gemma4", "llama", "olmo3", "qwen3_5"])
def test_a_model_by_kernels_has_the_gradients_of_transformers_own(family: str) -> None:
    own, by_kernels = _gradients(family, kernels=False), _gradients(family, kernels=True)
    assert own.keys() == by_kernels.keys()
    for name, gradient in own.items():
        assert (gradient - by_kernels[name]).abs().max() <= 1e-4 * gradient.abs().max(), name


def test_a_step_of_a_float32_model_with_bf16_products_takes_the_kernels_everywhere() -> None:
    engine = TorchEngine.open(request(tiny_shape("gemma3"), precision=PrecisionConfig(compute="bf16")))
    losses = []
    for kernels in (False, True):
        engine.spec = replace(engine.spec, card_kernels=kernels)
        state, seen = engine.init(0), []
        for seed in range(3):
            state, result = engine.step(state, random_batch(engine.spec.shape, seed=seed), 1e-3)
            seen.append(result.loss)
        losses.append(seen)
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
