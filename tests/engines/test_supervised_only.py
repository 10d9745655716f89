"""What reaches no loss is left out of the JAX step; `tests/runs/test_parity.py` compares its gradients."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from tests.engines.tiny import random_batch, tiny_shape
from tests.engines.tiny import request as plain_request
from tests.other_package.other_engine import UnigramEngine
from workings.config.training import MeshConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.sharding import make_layout
from workings.engines.jax.spec import build_spec
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch
from workings.objectives.policy_gradient import PolicyGradient

pytestmark = pytest.mark.slow
request = partial(plain_request, cpu_optimizations=True)


def test_positions_picked_are_the_supervised_ones_and_then_others() -> None:
    weights = np.array([[[0, 1, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]], np.float32)
    empty = np.zeros((1, 3, 5), np.int32)
    batch = Batch(tokens=empty, targets=empty, loss_mask=weights, positions=empty, segment_ids=empty)
    picked = batch.with_loss_positions(2).loss_positions
    assert picked is not None
    assert picked.tolist() == [[[1, 3], [3, 0], [0, 1]]]
    assert batch.with_loss_positions(5).loss_positions is None
    with pytest.raises(ValueError, match="2 supervised positions in a batch of at most 1"):
        batch.with_loss_positions(1)


def test_the_program_does_less_and_one_is_compiled_for_a_shape() -> None:
    shape = tiny_shape(layers=2)
    few = random_batch(shape, rows=4, length=24)
    few = replace(few, loss_mask=few.loss_mask * (np.arange(24) >= 20)).with_loss_positions(4)
    engine = JaxEngine.open(request(shape))
    engine.inspect(Batch.blank((1, 4, 24)).with_loss_positions(4))
    state, _ = engine.step(engine.init(0), few, 1e-3)
    engine.step(state, replace(few, loss_mask=few.loss_mask * (np.arange(24) >= 22)).with_loss_positions(4), 1e-3)
    assert engine.compilations == 1
    whole = JaxEngine.open(request(shape))
    flops = [each.compiled_step(batch).cost_analysis()["flops"]
             for each, batch in ((engine, few), (whole, Batch.blank((1, 4, 24))))]
    assert flops[0] < 0.95 * flops[1]  # logits of a vocabulary of 61 tokens only


def test_off_and_on_other_platforms_a_step_is_the_one_of_accelerators() -> None:
    shape, layout = tiny_shape(), make_layout(tuple(jax.devices("cpu")[:1]), MeshConfig(fsdp=1))
    specs = {(platform, on): build_spec(request(shape, cpu_optimizations=on), layout, platform)
             for platform in ("cpu", "gpu") for on in (False, True)}
    assert [key for key, spec in specs.items() if spec.at_loss_positions] == [("cpu", True)]
    spec = TorchEngine.open(request(shape, cpu_optimizations=False, objective=PolicyGradient())).spec
    assert (spec.group_by_length, spec.share_prefixes) == (False, False)
    for on in (False, True):  # an engine without any takes both values
        UnigramEngine.open(request(shape, cpu_optimizations=on))
