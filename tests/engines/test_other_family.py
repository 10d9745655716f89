"""A model family that another package brings, on both engines: from a folder with its ``config.json`` to a step."""

from pathlib import Path

import pytest
import transformers

from tests.engines.tiny import random_batch, request, roughened
from tests.engines.torch_oracle import plain, their_loss
from tests.models.other_family import install
from workings.config.load import load_recipe
from workings.engines.jax.engine import JaxEngine
from workings.engines.torch.engine import TorchEngine
from workings.inputs.resolve import find_shape
from workings.models.shapes import from_hf_config
from workings.models.weights import tensor_shapes


@pytest.fixture(autouse=True)
def toy_is_installed(monkeypatch, tmp_path_factory):
    install(monkeypatch, tmp_path_factory.mktemp("packages"), toy="tests.models.other_family:FAMILY")


@pytest.mark.slow
def test_from_a_config_to_a_step_on_both_engines(tmp_path: Path) -> None:
    theirs = transformers.SeedOssConfig(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=128)
    shape = from_hf_config(theirs.to_dict())
    assert (shape.family, shape.qkv_bias, shape.tied_embeddings) == ("toy", True, False)
    ours, other = JaxEngine.open(request(shape)), TorchEngine.open(request(shape))
    state = roughened(ours)
    ours.export(state, tmp_path)
    recipe = load_recipe("smoke-tiny", [f"model={{source: pretrained, id: {tmp_path}}}"])
    assert find_shape(recipe) == shape

    model = plain(tmp_path)
    assert type(model).__name__ == "SeedOssForCausalLM"
    assert {name: tuple(x.shape) for name, x in model.named_parameters()} == tensor_shapes(shape)
    batch = random_batch(shape)
    expected = float(their_loss(model, batch).detach())
    held = other.load(tmp_path)
    _, jax_step = ours.step(state, batch, 1e-3)
    _, torch_step = other.step(held, batch, 1e-3)
    assert jax_step.loss == pytest.approx(expected, rel=1e-5)
    assert torch_step.loss == pytest.approx(expected, rel=1e-5)
    assert torch_step.grad_norm == pytest.approx(jax_step.grad_norm, rel=1e-4)
