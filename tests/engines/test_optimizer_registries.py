"""Each engine has the optimizers that their configurations say it has, with the moments that plans count."""

from typing import Any

import jax.numpy as jnp
import pytest
import torch

from tests.engines.tiny import request, tiny_shape
from workings.config.section import choice_name
from workings.config.training import OPTIMIZERS, AdamW8bitConfig, MuonConfig
from workings.engines.jax import optimizers as jax_optimizers
from workings.engines.refusals import jax_refusals, refuse, torch_refusals
from workings.engines.torch import optimizers as torch_optimizers
from workings.errors import RequestError

ENGINES = {"jax": jax_optimizers, "torch": torch_optimizers}
FORMATS = {"fp32": (jnp.float32, torch.float32), "bf16": (jnp.bfloat16, torch.bfloat16)}
SIZES = {"matrix of a layer": ((6, 8), True), "norm of a layer": ((8,), True), "large matrix": ((70, 90), True),
         "embedding": ((70, 90), False), "last norm": ((8,), False)}


def jax_moments(config: Any, size: tuple[int, ...], in_layer: bool, moments: str) -> dict[str, Any]:
    """Of one tensor, or of a stack of three."""
    name, whole = ("layers.a.weight", (3, *size)) if in_layer else ("a.weight", size)
    optimizer = jax_optimizers.make_optimizer(config, FORMATS[moments][0])
    made = optimizer.init({name: jnp.zeros(whole)})
    return {slot: (tree[name].shape[in_layer:], str(tree[name].dtype)) for slot, tree in made.items() if name in tree}


def torch_moments(config: Any, size: tuple[int, ...], in_layer: bool, moments: str) -> dict[str, Any]:
    optimizer = torch_optimizers.make_optimizer(config, FORMATS[moments][1])
    return {slot: (tuple(x.shape), str(x.dtype).removeprefix("torch."))
            for slot, x in optimizer.init(torch.zeros(size)).items()}


@pytest.mark.parametrize("moments", ["fp32", "bf16"])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize(("engine", "variant"), [(engine, variant) for variant in OPTIMIZERS
                                                 for engine in variant.engines])
def test_a_configuration_says_the_moments_that_the_engine_makes(engine: str, variant: Any, size: str,
                                                                moments: Any) -> None:
    if variant is AdamW8bitConfig:
        pytest.importorskip("bitsandbytes")
    config = variant(name=choice_name(variant))
    made = {"jax": jax_moments, "torch": torch_moments}[engine](config, *SIZES[size], moments)
    names = {"fp32": "float32", "bf16": "bfloat16", "uint8": "uint8"}
    said = config.moment_shapes(SIZES[size][0], moments=moments, in_layer=SIZES[size][1])
    assert made == {slot: (shape, names[number]) for slot, (shape, number) in said.items()}
    itemsize = {"float32": 4, "bfloat16": 2, "uint8": 1}
    assert config.state_bytes(SIZES[size][0], moments=moments, in_layer=SIZES[size][1]) == sum(
        int(torch.Size(shape).numel()) * itemsize[dtype] for shape, dtype in made.values())


@pytest.mark.parametrize("engine", list(ENGINES))
def test_an_engine_has_what_the_configurations_say_and_refuses_the_rest(engine: str) -> None:
    there = {choice_name(variant) for variant in OPTIMIZERS if engine in variant.engines}
    assert set(ENGINES[engine].OPTIMIZERS) == there
    refusals = {"jax": jax_refusals, "torch": torch_refusals}[engine]
    refused = {"jax": AdamW8bitConfig(name="adamw8bit"), "torch": MuonConfig(name="muon")}[engine]
    with pytest.raises(RequestError, match=f"engine {engine} does not have optimizer.name: {refused.name}"):
        refuse(refusals(request(tiny_shape(), optimizer=refused)))
    refuse(refusals(request(tiny_shape())))
