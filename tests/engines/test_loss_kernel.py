"""The kernel of the loss against its plain version: on a card, or without one in Triton's interpreter."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `torch`")
pytest.importorskip("triton", reason="needs Triton, which PyTorch for CUDA brings")

from workings.engines.torch import loss_kernel  # noqa: E402

ON_CARD = torch.cuda.is_available()
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(("vocabulary", "targets", "cap", "dtype"), [
    (37, 1, 0.0, "float32"), (300, 3, 5.0, "float32"), (9000, 1, 0.0, "bfloat16"), (20000, 2, 30.0, "bfloat16")])
def test_the_kernel_computes_what_its_plain_version_does(monkeypatch: pytest.MonkeyPatch, vocabulary: int, targets: int,
                                                         cap: float, dtype: str, gradient: bool) -> None:
    if not ON_CARD:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(4, vocabulary, generator=random).mul(3).to(getattr(torch, dtype))
    index = torch.randint(0, vocabulary, (4, targets), generator=random)
    weights = torch.rand(4, targets, generator=random)
    plain, there = logits.clone(), logits.clone().to("cuda" if ON_CARD else "cpu")
    expected = loss_kernel.block_loss_(plain, index, weights, cap, gradient)
    found = loss_kernel._on_card(there, index.to(there.device), weights.to(there.device), cap, gradient)
    assert (found.cpu() - expected).abs().max() < 1e-5
    rounding = 2 ** -8 if dtype == "bfloat16" else 1e-6
    assert (there.cpu().float() - plain.float()).abs().max() <= rounding * plain.float().abs().max()
    assert torch.equal(plain, logits) is not gradient


@pytest.mark.skipif(not ON_CARD, reason="needs an NVIDIA card")
def test_a_product_is_added_unrounded() -> None:
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(64, size, generator=random).bfloat16() for size in (48, 32))
    total: Any = torch.randn(48, 32, generator=random)
    there = total.cuda()
    loss_kernel.add_product_(total, left, right)
    loss_kernel.add_product_(there, left.cuda(), right.cuda())
    assert (there.cpu() - total).abs().max() < 1e-4
