"""The kernel of the loss against its plain version: on a card, or without one in Triton's interpreter."""

import json
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `torch`")

from workings.engines.torch import loss_kernel  # noqa: E402

ON_CARD = torch.cuda.is_available()
CODE = """
import json, torch
from workings.engines.torch import loss_kernel
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
found = []
for vocabulary, targets, cap, dtype in ((37, 1, 0.0, torch.float32), (300, 3, 5.0, torch.float32),
                                        (9000, 1, 0.0, torch.bfloat16), (20000, 2, 30.0, torch.bfloat16)):
    for gradient in (False, True):
        random = torch.Generator().manual_seed(0)
        logits = torch.randn(4, vocabulary, generator=random).mul(3).to(dtype)
        index = torch.randint(0, vocabulary, (4, targets), generator=random)
        weights = torch.rand(4, targets, generator=random)
        plain, there = logits.clone(), logits.clone().to(device)
        expected = loss_kernel.block_loss_(plain, index, weights, cap, gradient)
        log_z = loss_kernel._on_card(there, index.to(device), weights.to(device), cap, gradient)
        apart = (there.cpu().float() - plain.float()).abs().max() / plain.float().abs().max()
        found.append({"narrow": dtype == torch.bfloat16, "changed": not torch.equal(plain, logits), "of": gradient,
                      "log_z": float((log_z.cpu() - expected).abs().max()), "logits": float(apart)})
print(json.dumps(found))
"""


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton, which PyTorch for CUDA brings")
def test_the_kernel_computes_what_its_plain_version_does(run_python) -> None:
    # Triton looks for its interpreter when it is imported, so this takes a child.
    done = run_python("-c", CODE, environment={} if ON_CARD else {"TRITON_INTERPRET": "1"})
    found = json.loads(done.stdout)
    assert len(found) == 8
    for case in found:
        assert case["changed"] is case["of"]
        assert case["log_z"] < 1e-5
        assert case["logits"] <= (2 ** -7 if case["narrow"] else 1e-6)


@pytest.mark.skipif(not ON_CARD, reason="needs an NVIDIA card")
def test_a_product_is_added_unrounded() -> None:
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(64, size, generator=random).bfloat16() for size in (48, 32))
    total = torch.randn(48, 32, generator=random)
    there = total.cuda()
    loss_kernel.add_product_(total, left, right)
    loss_kernel.add_product_(there, left.cuda(), right.cuda())
    assert (there.cpu() - total).abs().max() < 1e-4


@pytest.mark.parametrize(("installed", "capability", "said"), [
    (None, (9, 0), "Triton is not installed"), ("triton", (7, 5), "no bf16")])
def test_why_a_card_has_no_kernel_is_said(monkeypatch: pytest.MonkeyPatch, installed: str | None,
                                          capability: tuple[int, int], said: str) -> None:
    monkeypatch.setattr(loss_kernel, "find_spec", lambda name: installed)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    loss_kernel.finding.cache_clear()
    try:
        assert said in loss_kernel.finding(torch.device("cuda"))
        assert not loss_kernel.serves(torch.device("cuda"))
    finally:
        loss_kernel.finding.cache_clear()


def test_a_kernel_that_fails_or_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU as the card, whose plain version is right, and then is not."""
    monkeypatch.setattr(loss_kernel, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    right, calls = loss_kernel.block_loss_, []

    def second_is_wrong(*arguments: object) -> object:
        calls.append(1)
        return right(*arguments) + (len(calls) - 1)

    def fails(*arguments: object) -> object:
        raise RuntimeError("Failed to find C compiler.\nMore of it.")

    for kernel, said in ((right, ""), (second_is_wrong, "off by 1"), (fails, "Failed to find C compiler.")):
        monkeypatch.setattr(loss_kernel, "block_loss_", kernel)
        loss_kernel.finding.cache_clear()
        try:
            found = loss_kernel.finding(torch.device("cpu"))
        finally:
            loss_kernel.finding.cache_clear()
        assert found.endswith(said)
        assert bool(found) is bool(said)
