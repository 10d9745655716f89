"""The PyTorch engine as the loop sees it; what it computes is compared in `test_every_family_torch`."""

import numpy as np
import pytest
import torch

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.training import AdamW8bitConfig, AdamWConfig, PrecisionConfig
from workings.engines.base import ReportingEngine, StreamingEngine
from workings.engines.torch import attention
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.engine import TorchEngine
from workings.errors import RequestError
from workings.models.batch import Batch


def test_the_split_into_micro_batches_does_not_change_the_gradient() -> None:
    """1 x 8, 2 x 4 and 8 x 1 with rows of very different length: same loss and norm to 1e-5."""
    whole = random_batch(tiny_shape(), rows=8, seed=4)
    engine = TorchEngine.open(request(tiny_shape()))
    results = []
    for micro in (1, 2, 8):
        split = {name: x.reshape(micro, 8 // micro, -1) for name, x in whole.arrays.items()}
        _, result = engine.step(engine.init(0), Batch(**split), 1e-3)
        results.append((result.loss, result.grad_norm))
    np.testing.assert_allclose(results[1:], [results[0]] * 2, rtol=1e-5)


@pytest.mark.parametrize("visible", [
    AttentionMask(), AttentionMask(segment_ids=torch.tensor([[1] * 9 + [2] * 11 + [0] * 3] * 2)),
])
@pytest.mark.parametrize("window", [4, attention.EVERYTHING])
def test_attention_functions_agree_with_their_gradients(visible: AttentionMask, window: int, monkeypatch) -> None:
    """Two key/value heads for four query heads, 23 positions, chunks of 5."""
    monkeypatch.setattr(attention, "QUERIES", 5)
    draw = torch.Generator().manual_seed(0)
    tensors = [torch.randn(2, heads, 23, 8, generator=draw).requires_grad_() for heads in (4, 2, 2)]
    mask = visible.mask(23, window, torch.device("cpu"))
    found = {}
    for name, function in attention.FUNCTIONS.items():
        out = function(*tensors, mask, 0.3, 0.0)
        found[name] = [out.detach(), *torch.autograd.grad(out.square().sum(), tensors)]
    for name in ("chunked", "fused"):
        for mine, plain in zip(found[name], found["plain"], strict=True):
            torch.testing.assert_close(mine, plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["gemma", "gemma3", "qwen3"])
def test_bf16_storage_with_fp32_arithmetic_is_the_fp32_model_of_the_rounded_weights(family: str) -> None:
    """Loss equal to float32's, and gradients equal up to their own rounding to bfloat16."""
    mixed = TorchEngine.open(request(tiny_shape(family), precision=PrecisionConfig(
        parameters="bf16", compute="fp32", rounding="stochastic")))
    exact = TorchEngine.open(request(tiny_shape(family)))
    states = {"mixed": mixed.init(0), "exact": exact.init(0)}
    with torch.no_grad():
        for name, x in states["exact"].trained.items():
            x.copy_(states["mixed"].trained[name].float())
    batch = random_batch(tiny_shape(family))
    _, ours = mixed.step(states["mixed"], batch, 1e-3)
    _, theirs = exact.step(states["exact"], batch, 1e-3)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-6)
    np.testing.assert_allclose(ours.grad_norm, theirs.grad_norm, rtol=2e-3)


def test_generation_stops_and_keeps_order() -> None:
    engine = TorchEngine.open(request(tiny_shape()))
    state = engine.init(0)
    draw = np.random.default_rng(0)
    prompts = [draw.integers(0, 61, n).tolist() for n in draw.integers(1, 20, 6)]
    together = engine.generate(state, prompts, max_new_tokens=5, stop_ids=[])
    assert together[:2] == [engine.generate(state, [p], max_new_tokens=5, stop_ids=[])[0] for p in prompts[:2]]
    stop = together[4].tokens[2]
    stopped = engine.generate(state, prompts, max_new_tokens=5, stop_ids=[stop])
    assert stopped[4].finish_reason == "stop"
    assert stopped[4].tokens == together[4].tokens[:together[4].tokens.index(stop)]
    told: list[int] = []
    assert isinstance(engine, StreamingEngine)
    assert engine.stream(state, prompts[4], max_new_tokens=5, stop_ids=[stop], tell=told.append) == stopped[4]
    assert told == stopped[4].tokens
    with pytest.raises(RequestError, match="a prompt is empty"):
        engine.generate(state, [[1], []], max_new_tokens=2, stop_ids=[])


def test_random_weights_have_the_scale_of_the_other_engine() -> None:
    from workings.engines.jax.engine import JaxEngine
    from workings.engines.jax.params_tree import flatten_params

    shape = tiny_shape("gemma3", vocab=512)
    ours = TorchEngine.open(request(shape)).init(5).trained
    params = JaxEngine.open(request(shape)).init(5)["params"]
    theirs = {name: np.asarray(x) for name, x in flatten_params(params).items()}
    for name, x in theirs.items():
        stored = name.replace("layers.", "model.layers.0.") if name.startswith("layers.") else name
        np.testing.assert_allclose(float(ours[stored].detach().std()), x.std(), rtol=0.12, atol=1e-9)


def test_what_it_says_about_itself() -> None:
    engine = TorchEngine.open(request(tiny_shape(), optimizer=AdamWConfig(name="adamw"), precision=PrecisionConfig(
        parameters="bf16", rounding="master_fp32", moments="bf16")))
    facts = engine.describe()
    assert (facts.platform, facts.count, facts.mesh) == ("cpu", 1, {"fsdp": 1, "tp": 1})
    assert dict(engine.dtypes()) == {"parameters": "bfloat16", "compute": "float32", "gradients": "bfloat16",
                                     "moments": "bfloat16 and float32", "accumulator": "bfloat16"}
    assert engine.memory().peak_bytes > 2 ** 26
    assert engine.check_device()["max_difference_to_numpy"] < 1e-4
    assert isinstance(engine, ReportingEngine)
    texts = engine.environment_files()
    assert set(texts) == {"torch_version.txt", "nvidia_smi.txt"}
    assert torch.__version__ in texts["torch_version.txt"]
    # Bytes are 8-bit codes in moments: a checkpoint holds no four bits there, and `verify` compares the two.
    in_8_bits = TorchEngine.open(request(tiny_shape(vocab=160), optimizer=AdamW8bitConfig(name="adamw8bit")))
    assert in_8_bits.dtypes()["moments"] == "float32 and uint8"
