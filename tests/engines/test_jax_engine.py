"""The JAX engine as the loop sees it: steps, repeats, checkpoints, accumulation, packing, generation, memory."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import losses, packed_batch, random_batch, request, tiny_shape
from workings.config.training import AdamWConfig, MeshConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.step import gradients
from workings.errors import RequestError
from workings.models.batch import Batch


@pytest.mark.slow
def test_training_lowers_the_loss_and_compiles_once() -> None:
    engine = JaxEngine.open(request(tiny_shape(), optimizer=AdamWConfig(name="adamw", clip_norm=1.0)))
    _, found = losses(engine, engine.init(0), 30)
    assert found[-1] < found[0] / 2
    assert engine.compilations == 1
    engine.inspect(random_batch(engine.spec.shape))
    assert engine.compilations == 1


def gradient(engine: JaxEngine, params: dict, batch: Batch) -> tuple[float, np.ndarray]:
    """Loss and every element of the gradient."""
    arrays = {name: jnp.asarray(x) for name, x in batch.arrays.items()}
    (loss, _), tree, _ = jax.jit(partial(gradients, engine.spec))(params, arrays, jnp.float32(batch.divisor))
    return float(loss), np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])


def assert_same(one: tuple[float, np.ndarray], other: tuple[float, np.ndarray]) -> None:
    """Losses to 1e-5, gradients to 1e-5 of their largest element."""
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    np.testing.assert_allclose(one[1], other[1], atol=1e-5 * np.abs(one[1]).max(), rtol=0)


@pytest.mark.slow
def test_the_split_into_micro_batches_does_not_change_the_gradient() -> None:
    """1 x 8, 2 x 4 and 8 x 1 with rows of very different length."""
    whole = random_batch(tiny_shape(), rows=8, seed=4)
    engine = JaxEngine.open(request(tiny_shape()))
    params = engine.init(0)["params"]
    found = [gradient(engine, params, Batch(**{name: x.reshape(micro, 8 // micro, -1)
                                               for name, x in whole.arrays.items()})) for micro in (1, 2, 8)]
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
    counts = whole.loss_mask.sum((0, 2))
    assert counts.max() > 2 * counts.min()


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param("gemma", marks=pytest.mark.full), "gemma3"])
def test_packed_rows_have_the_loss_and_gradient_of_separate_rows(family: str) -> None:
    shape = tiny_shape(family)
    draw = np.random.default_rng(0)
    first, second = (draw.integers(1, 61, n).astype(np.int32) for n in (7, 9))
    packed = packed_batch(first, second)
    separate = Batch(**{name: np.stack([x[0, 0, :7].tolist() + [0] * 9, x[0, 0, 7:16].tolist() + [0] * 7])[None]
                        .astype(x.dtype) for name, x in packed.arrays.items()})
    engine = JaxEngine.open(request(shape))
    params = engine.init(0)["params"]
    assert_same(gradient(engine, params, packed), gradient(engine, params, separate))


@pytest.mark.slow
def test_inspection_describes_the_executable_that_runs() -> None:
    engine = JaxEngine.open(request(tiny_shape()))
    small = engine.inspect(random_batch(engine.spec.shape))
    large = engine.inspect(random_batch(engine.spec.shape, rows=32))
    assert small.source == "compiled"
    # Parameters and two moments come in and go out in the same memory.
    parameters = sum(x.nbytes for x in jax.tree.leaves(engine.init(0)["params"]))
    assert small.breakdown["aliased"] >= 3 * parameters
    assert large.breakdown["temporaries"] > 3 * small.breakdown["temporaries"]


def test_what_does_not_come_out_even_is_refused() -> None:
    with pytest.raises(RequestError, match="needs 4 devices, and 1 are here"):
        JaxEngine.open(request(tiny_shape(), mesh=MeshConfig(fsdp=4)))


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    engine = JaxEngine.open(request(tiny_shape()))
    engine.export(engine.init(0), tmp_path)
    with pytest.raises(RequestError, match="vocab_size=60"):
        JaxEngine.open(request(tiny_shape(vocab=60))).load(tmp_path)
