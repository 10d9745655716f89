"""Weights in eight bits: one rule for both engines and bitsandbytes, and models of what the codes represent."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import PrecisionConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.int8 import CODES, dequantize, quantize, stored_shapes
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.frozen_linear import EightBitLinear, FrozenLinear, to_eight_bits
from workings.engines.torch.lora import base_weights

WEIGHT = np.random.default_rng(0).normal(size=(48, 33)).astype(np.float32)
WEIGHT[3], WEIGHT[4, :3], WEIGHT[5, 0] = 0.0, (127.0, 63.5, -0.5), 1e4
"""A row of zeros, one with halves between two codes, one with an outlier."""


def stored(weight: np.ndarray) -> EightBitLinear:
    layer: Any = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    to_eight_bits(layer, torch.float32)
    layer.to_empty(device="cpu")
    layer.store(torch.from_numpy(weight))
    return layer


def test_codes_scales_and_values_are_the_same_everywhere() -> None:
    functional = pytest.importorskip("bitsandbytes").functional
    layer, rows = stored(WEIGHT), WEIGHT.any(-1)
    theirs = functional.int8_vectorwise_quant(torch.from_numpy(WEIGHT))
    for codes, absmax in (quantize(WEIGHT), jax.jit(lambda x: quantize(x, jnp))(WEIGHT)):
        assert (codes.shape, absmax.shape) == stored_shapes(WEIGHT.shape)
        np.testing.assert_array_equal(codes, layer.codes)
        np.testing.assert_array_equal(absmax, layer.absmax)
        # Of a row of zeros bitsandbytes' own CPU code divides by zero.
        np.testing.assert_array_equal(np.asarray(codes)[rows], theirs[0].numpy()[rows])
        np.testing.assert_array_equal(np.asarray(absmax)[:, 0], theirs[1])
        values = jax.jit(lambda c, a: dequantize(c, a, WEIGHT.shape[1], jnp.float32).T)(codes, absmax)
        np.testing.assert_array_equal(values, layer.full(torch.float32))
        np.testing.assert_array_equal(np.asarray(values)[rows], functional.int8_vectorwise_dequant(
            layer.codes, layer.absmax).numpy()[rows])
    assert layer.codes[4, :3].tolist() == [127, 64, 0], "halves go to the even neighbor"
    errors = np.abs(layer.full(torch.float32).numpy() - WEIGHT).max(-1)
    assert (errors <= np.abs(WEIGHT).max(-1) / 254 * (1 + 1e-4)).all(), "half a step at most"


@pytest.mark.slow
def test_a_model_in_eight_bits_is_that_of_the_weights_that_they_stand_for(tmp_path: Path) -> None:
    """On both engines to 1e-5; both store the same bits, rounded to bfloat16 first where that is asked for."""
    shape, precision = tiny_shape("gemma3"), PrecisionConfig(parameters="bf16", compute="fp32")
    base, plain = tmp_path / "base", tmp_path / "plain"
    base.mkdir()
    plain.mkdir()
    full = JaxEngine.open(request(shape))
    full.export(full.init(0), base)
    asked = {"method": QloraConfig(name="qlora", rank=1), "frozen_bits": "int8", "precision": precision}
    ours, theirs = JaxEngine.open(request(shape, **asked)), TorchEngine.open(request(shape, **asked))
    state, other = (engine.load(base, trainable=False) for engine in (ours, theirs))
    places = {name: place for name, place in base_weights(other.model).items() if isinstance(place, FrozenLinear)}
    assert len(places) == 7 * shape.layers
    for name, codes in state["params"]["layers"].items():
        if name.endswith(CODES):
            for layer, values in enumerate(codes):
                place = places[f"model.layers.{layer}.{name.removesuffix(CODES)}weight"]
                np.testing.assert_array_equal(values, place.codes, err_msg=name)
    assert (ours.dtypes()["parameters"], theirs.dtypes()["parameters"]) == (
        "bfloat16 and float32 and int8", "bfloat16 and float32 and int8")
    # Its adapters are zero, so what is written is what the codes represent, rounded to bfloat16.
    batch = random_batch(shape)
    found = [ours.log_probs(state, batch), theirs.log_probs(other, batch)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    ours.export(state, plain)
    dense = JaxEngine.open(request(shape, method=LoraConfig(name="lora", rank=1), precision=precision))
    np.testing.assert_allclose(dense.log_probs(dense.load(plain, trainable=False), batch), found[0], atol=2e-2)
    exact = full.log_probs(full.load(base, trainable=False), batch)
    assert 1e-4 < np.abs(exact - found[0]).max() < 0.1, "eight bits are near the whole ones, and are not those"
