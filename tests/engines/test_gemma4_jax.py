"""Gemma 4 on the JAX engine: layers that are not alike, shared keys and values, per-layer embeddings, frozen tensors.

Logits and greedy text are compared with transformers in `test_transformers_oracle`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.tiny import losses, our_logits, random_batch, request, tiny_shape
from tests.engines.torch_oracle import LARGE, plain, their_logits
from tests.engines.torch_oracle import gradients as their_gradients
from workings.config.method import LoraConfig
from workings.config.training import MemoryConfig
from workings.engines.jax.checkpoint import unstacked
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.params_tree import LAYERS, flatten_params, stacks
from workings.engines.jax.step import gradients
from workings.engines.torch.engine import TorchEngine
from workings.errors import RequestError
from workings.models.shape import ModelShape

pytestmark = pytest.mark.slow

NEIGHBORS = tiny_shape("gemma4", layers=9, sliding_pattern=3, shared_kv_layers=3)
"""Two sliding layers and a global one, twice with own keys and once without."""


def opened(**changes: Any) -> JaxEngine:
    shape = changes.pop("shape", None) or tiny_shape("gemma4")
    return JaxEngine.open(request(shape, **changes))


@pytest.mark.parametrize("memory", [MemoryConfig(), pytest.param(
    MemoryConfig(remat="dots", attention="chunked", loss_chunk=8), id="saving", marks=pytest.mark.full)])
def test_layers_that_share_a_body_or_keys_get_the_gradients_of_the_other_engine(memory: MemoryConfig,
                                                                                tmp_path: Path) -> None:
    engine, other = opened(shape=NEIGHBORS, memory=memory), TorchEngine.open(request(NEIGHBORS))
    state, batch = engine.init(3), random_batch(NEIGHBORS)
    engine.export(state, tmp_path)
    theirs = other.load(tmp_path)
    prompts = [[3, 1, 4, 1, 5, 9], [2, 7]]
    ours, expected = (each.generate(at, prompts, max_new_tokens=8, stop_ids=[])
                      for each, at in ((engine, state), (other, theirs)))
    assert [answer.tokens for answer in ours] == [answer.tokens for answer in expected]
    sums, _ = jax.jit(partial(gradients, engine.spec))(state["params"], batch.arrays, np.float32(batch.divisor))
    found = {each: x[i] if name.startswith(LAYERS) else x for name, x in flatten_params(sums.gradients).items()
             for i, each in enumerate(unstacked(name, x.shape[0]))}
    wanted = {name: x.numpy() for name, x in their_gradients(other, theirs, batch).items() if name != "loss"}
    assert found.keys() == wanted.keys(), "per-layer embeddings and layer scalars have none"
    assert {*engine.abstract_state["moments"]["exp_avg"]} == {*flatten_params(sums.gradients)}
    largest = max(np.abs(x).max() for x in wanted.values())
    for name, x in wanted.items():
        np.testing.assert_allclose(found[name], x, rtol=1e-3, atol=1e-4 * largest, err_msg=name)


@pytest.mark.full
@pytest.mark.parametrize("shape", [{}, LARGE], ids=["per-layer embeddings", "without"])
def test_adapters_leave_everything_else_as_it_was(shape: dict[str, Any], tmp_path: Path) -> None:
    """Layers without own keys have no adapter for them; merged, the model gives the same logits."""
    method = LoraConfig(name="lora", rank=2, target_modules=("q_proj", "k_proj", "v_proj", "down_proj"))
    engine = opened(shape=tiny_shape("gemma4", **shape), method=method)
    state, found = losses(engine, engine.init(0), 6)
    assert found[-1] < found[0]
    engine.export(state, tmp_path)
    tokens = np.random.default_rng(0).integers(0, 61, (1, 14)).astype(np.int32)
    theirs = their_logits(plain(tmp_path), tokens)
    assert np.abs(our_logits(engine, state, tokens) - theirs).max() < 1e-4 * np.abs(theirs).max()
    with_keys = {name for name in flatten_params(state["params"]) if "k_proj.lora_A" in name}
    assert len(with_keys) == len([p for p in stacks(engine.spec.shape) if not engine.spec.shape.shares_keys(p[0])])


def test_a_layer_that_finds_no_keys_of_its_kind_is_refused() -> None:
    from workings.models.shapes import check_shape

    with pytest.raises(RequestError, match="its own keys and values"):
        check_shape(ModelShape(**(tiny_shape("gemma4").__dict__ | {"shared_kv_layers": 5})))
