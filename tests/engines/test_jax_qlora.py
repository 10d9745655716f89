"""NF4 against bitsandbytes, and QLoRA against LoRA on weights that are exactly what the four bits represent."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import losses, request, tiny_shape
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import PrecisionConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.lora import make_lora
from workings.engines.jax.nf4 import LIMITS, dequantize, quantize, stored_shapes
from workings.engines.safetensors_file import TensorFile
from workings.errors import RequestError
from workings.models.batch import Batch
from workings.models.shape import ModelShape

pytestmark = pytest.mark.slow

WHOLE = {"width": 64, "mlp_width": 128, "head_dim": 16}
"""Rows are whole blocks of 64; in the usual tiny shape they are not."""


def in_order(codes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Codes ``[out, in]``, one a number, from our order in memory."""
    halves = np.concatenate([codes >> 4, codes & 15], 1)
    return (np.moveaxis(halves, -1, 0) if codes.ndim == 3 else halves).reshape(size)


@pytest.mark.parametrize("size", [(96, 128), (48, 32)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_codes_scales_and_values_are_bitsandbytes(size: tuple[int, int], dtype: str) -> None:
    """Equal codes, equal scales and equal dequantized numbers, bit for bit, on the host and traced."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("bitsandbytes").functional
    draw = np.random.default_rng(0)
    weight = draw.normal(size=size).astype(np.float32)
    weight[3, :15] = LIMITS  # between two levels, in a block whose largest element is one
    weight[3, 15:64 if size[1] > 64 else 32] = 1.0
    weight[4] = 0.0
    theirs = torch.from_numpy(weight).to(getattr(torch, dtype))
    packed, state = functional.quantize_4bit(theirs, blocksize=64, quant_type="nf4")
    expected = packed.numpy().reshape(-1)
    ours = theirs.float().numpy()
    for codes, absmax in (quantize(ours), jax.jit(lambda x: quantize(x, jnp))(ours)):
        assert (codes.shape, absmax.shape) == stored_shapes(size)
        found = in_order(np.asarray(codes), size).reshape(-1)
        real = ours.reshape(-1, 64).any(-1).repeat(64)  # a block of zeros is zero with any codes
        np.testing.assert_array_equal((found[::2] * 16 + found[1::2])[real[::2]], expected[real[::2]])
        scales = np.asarray(absmax).T.reshape(-1) if absmax.ndim == 2 else np.asarray(absmax)
        np.testing.assert_array_equal(scales, state.absmax.numpy())
        values = jax.jit(lambda c, a: dequantize(c, a, size[1], jnp.dtype(dtype)).T)(codes, absmax)
        dequantized = functional.dequantize_4bit(packed, state).float().numpy()
        if size[1] % 64:  # its CPU code has no blocks over two rows: its own codes and scales, multiplied
            numbers = np.stack([expected >> 4, expected & 15], -1).reshape(-1)
            product = torch.from_numpy((state.code.numpy()[numbers].reshape(-1, 64) * scales[:, None]).reshape(size))
            dequantized = product.to(theirs.dtype).float().numpy()
        np.testing.assert_array_equal(values.astype(jnp.float32), dequantized)


def base_weights(shape: ModelShape, folder: Path) -> Path:
    """A folder with random weights."""
    (base := folder / "base").mkdir()
    full = JaxEngine.open(request(shape))
    full.export(full.init(0), base)
    return base


@pytest.mark.parametrize("size", [pytest.param({}, id="blocks over rows"), WHOLE])
def test_qlora_is_lora_on_the_dequantized_weights(size: dict[str, int], tmp_path: Path) -> None:
    """The same losses and adapters to 1e-5; the four bits read from a folder are those of the seed."""
    shape, plain = tiny_shape(**size), tmp_path / "plain"
    base = base_weights(shape, tmp_path)
    plain.mkdir()
    bits = JaxEngine.open(request(shape, method=QloraConfig(name="qlora", rank=4), weights=base))
    state = bits.load(base)
    bits.export(state, plain)  # B is zero: what is written is what the four bits represent
    name = "model.layers.1.mlp.up_proj.weight"
    before, after = (TensorFile(where / "model.safetensors").read(name) for where in (base, plain))
    assert 0.01 < np.abs(before - after).max() / np.abs(before).max() < 0.2
    random = bits.init(0)["params"]["layers"]
    for name, x in state["params"]["layers"].items():
        np.testing.assert_array_equal(x, random[name], err_msg=name)
    dense = JaxEngine.open(request(shape, method=LoraConfig(name="lora", rank=4)))
    trained, ours = losses(bits, state, 6, micro=2)
    expected_state, expected = losses(dense, dense.load(plain), 6, micro=2)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    for name, x in expected_state["params"]["layers"].items():
        if "lora_" in name:
            np.testing.assert_allclose(trained["params"]["layers"][name], x, atol=1e-4, err_msg=name)
    assert expected[-1] < expected[0]
    if size:  # without remat, too, the compiled step keeps bytes of all layers, never a stack of matrices
        text = bits.compiled_step(Batch.blank((2, 4, 12))).as_text()
        assert re.search(r"u8\[2,1,32,128\]\S* parameter", text)
        assert not re.findall(r"= f32\[2,(?:128,64|64,128|1,64,128|2,64,64)\]\S* ([\w-]+)\(", text)


def test_both_engines_store_a_float32_file_in_the_same_bits(tmp_path: Path) -> None:
    """Rounded to `precision.parameters` before four bits are made of it, in any format of the file."""
    pytest.importorskip("bitsandbytes")
    from workings.engines.torch.engine import TorchEngine

    shape, written = tiny_shape("llama", **WHOLE), []
    base = base_weights(shape, tmp_path)
    for kind in (JaxEngine, TorchEngine):
        engine = kind.open(request(shape, method=QloraConfig(name="qlora", rank=4), weights=base,
                                   precision=PrecisionConfig(parameters="bf16", compute="bf16")))
        (tmp_path / kind.name).mkdir()
        engine.export(engine.load(base), tmp_path / kind.name)
        written.append(TensorFile(tmp_path / kind.name / "model.safetensors"))
    ours, theirs = written
    assert set(ours.names()) == set(theirs.names())
    for name in ours.names():
        assert str(ours.dtype(name)) == str(theirs.dtype(name)) == "bfloat16"
        np.testing.assert_array_equal(ours.read(name), theirs.read(name), err_msg=name)


def test_blocks_that_a_mesh_would_cut_are_refused() -> None:
    with pytest.raises(RequestError, match=r"q_proj is 64 x 64.*\n.*multiples of 128"):
        make_lora(QloraConfig(name="qlora"), tiny_shape(**WHOLE), tp=2)
    with pytest.raises(RequestError, match="blocks of 64 are not cut"):
        make_lora(QloraConfig(name="qlora"), tiny_shape(width=33), tp=1)
