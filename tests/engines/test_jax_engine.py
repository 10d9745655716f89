"""What the JAX engine says of its step's memory, and what it refuses. Its numbers are compared elsewhere: with the
PyTorch engine's in `tests/runs/test_parity.py`, gradients of packed rows and of several micro batches included."""

from pathlib import Path

import jax
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.engines.jax.engine import JaxEngine
from workings.errors import RequestError


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


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    engine = JaxEngine.open(request(tiny_shape()))
    engine.export(engine.init(0), tmp_path)
    with pytest.raises(RequestError, match="vocab_size=60"):
        JaxEngine.open(request(tiny_shape(vocab=60))).load(tmp_path)
