"""LoRA and QLoRA of the PyTorch engine against peft and bitsandbytes, and what is kept and refused."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers

from tests.engines.tiny import losses, our_logits, request, tiny_shape
from tests.engines.torch_oracle import plain, same, their_logits, with_adapter
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.safetensors_file import TensorFile
from workings.engines.torch import four_bit
from workings.engines.torch.checkpoint import write
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.lora import base_weights
from workings.errors import RecordError

TARGETS = ("q_proj", "v_proj", "o_proj", "gate_proj", "down_proj")
LORA = LoraConfig(name="lora", rank=3, alpha=7.5, target_modules=TARGETS, rank_stabilized=True)
QLORA = QloraConfig(name="qlora", rank=4, alpha=8)
FAMILY = {"rank-stabilized": "gemma2", "qlora": "llama"}
METHODS = {"rank-stabilized": LORA, "qlora": QLORA}


def shape(case: str):
    return tiny_shape(FAMILY[case])


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Weights to start from, by case."""
    found = {}
    for case in METHODS:
        found[case] = tmp_path_factory.mktemp(case)
        engine = TorchEngine.open(request(shape(case)))
        engine.export(engine.init(3), found[case])
    return found


def opened(case: str, base: Path, **changes: Any) -> TorchEngine:
    return TorchEngine.open(request(shape(case), method=METHODS[case], weights=base, **changes))


@pytest.mark.parametrize("case", list(METHODS))
def test_a_checkpoint_holds_adapters_only_and_goes_on_bit_for_bit(case: str, bases: dict, tmp_path: Path) -> None:
    engine = opened(case, bases[case], memory=MemoryConfig(remat="layer"))
    state, _ = losses(engine, engine.load(bases[case]), 3)
    engine.save(state, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapter_model.safetensors", "optimizer.safetensors"]
    names = TensorFile(tmp_path / "adapter_model.safetensors").names()
    assert all(name.startswith("base_model.model.") and ("lora_A.weight" in name or "lora_B.weight" in name)
               for name in names)
    assert {f"exp_avg.{name}" for name in names} < set(TensorFile(tmp_path / "optimizer.safetensors").names())
    straight, expected = losses(engine, state, 3, first=3)
    again = opened(case, bases[case], memory=MemoryConfig(remat="layer"))
    resumed, found = losses(again, again.restore(tmp_path), 3, first=3)
    assert found == expected
    assert same(straight, resumed)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(RecordError, match=r"no adapter_model\.safetensors"):
        again.restore(tmp_path)


@pytest.mark.parametrize("case", list(METHODS))
def test_exported_adapter_and_merged_weights_are_the_trained_model(case: str, bases: dict, tmp_path: Path) -> None:
    """QLoRA's merged weights are what the four bits represent, plus the adapter."""
    engine = opened(case, bases[case])
    state, _ = losses(engine, engine.load(bases[case]), 5)
    engine.export(state, tmp_path)
    tokens = np.random.default_rng(0).integers(0, 61, (2, 14)).astype(np.int32)
    ours = our_logits(engine, state, tokens)
    base = bases[case]
    if case == "qlora":  # the adapter was trained on what the four bits represent
        base = tmp_path / "base"
        base.mkdir()
        full = {name: place.full(torch.float32) if isinstance(place, FourBitLinear) else place
                for name, place in base_weights(state.model).items()}
        write(base / "model.safetensors", full)
        (base / "config.json").write_bytes((bases[case] / "config.json").read_bytes())
    scale = max(1.0, float(np.abs(ours).max()))
    for model in (plain(tmp_path), with_adapter(base, tmp_path / "adapter")):
        assert np.abs(ours - their_logits(model, tokens)).max() < 1e-5 * scale


def test_four_bits_are_bitsandbytes_own(bases: dict[str, Path]) -> None:
    """Every projection, and nothing else, is stored in the codes of a bitsandbytes layer of the same weight."""
    import bitsandbytes

    engine = opened("qlora", bases["qlora"])
    state = engine.load(bases["qlora"])
    file = TensorFile(bases["qlora"] / "model.safetensors")
    found = {name: place for name, place in base_weights(state.model).items() if isinstance(place, FourBitLinear)}
    assert len(found) == 7 * 2
    for name, layer in found.items():
        weight = torch.from_numpy(np.array(file.read(name)))
        theirs = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type="nf4", blocksize=64,
                                            compress_statistics=False).to("cpu")
        assert torch.equal(layer.codes, theirs.data)
    assert engine.dtypes() == {"parameters": "float32 and nf4", "compute": "float32", "moments": "float32",
                               "gradients": "float32", "accumulator": "float32"}


@pytest.mark.parametrize("width", [64, 96])
def test_four_bits_stand_for_their_table_times_a_scale(width: int) -> None:
    """bitsandbytes 0.50 itself takes wrong scales on a CPU with AVX-512 where a row begins within a block."""
    random = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(width, 48, bias=False, device="meta")
    four_bit.to_four_bits(linear, torch.float32)
    layer = cast(FourBitLinear, linear.to_empty(device="cpu"))
    with torch.no_grad():
        layer.store(torch.randn(48, width, generator=random))
    codes = torch.stack([layer.codes >> 4, layer.codes & 15]).squeeze(-1).T.reshape(-1, 64).long()
    stands_for = (layer.level[codes] * layer.absmax[:, None]).view(48, width)
    torch.testing.assert_close(layer.full(torch.float32), stands_for, rtol=0, atol=0)
    x, grad = (torch.randn(3, size, generator=random) for size in (width, 48))
    x.requires_grad_()
    y = layer(x)
    y.backward(grad)
    torch.testing.assert_close(y, x @ stands_for.T)
    torch.testing.assert_close(x.grad, grad @ stands_for)


@pytest.mark.parametrize("method", [LORA, QLORA])
def test_bf16_storage_and_arithmetic_keep_float32_adapters(method: Any, tmp_path: Path) -> None:
    precision = PrecisionConfig(parameters="bf16", compute="bf16")
    engine = TorchEngine.open(request(tiny_shape("gemma3"), method=method, precision=precision))
    state, found = losses(engine, engine.init(0), 9)
    assert found[-1] < found[0]
    assert {x.dtype for x in state.trained.values()} == {torch.float32}
    engine.export(state, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.dtype == torch.bfloat16
