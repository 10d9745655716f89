"""`engine: tunix` next to the JAX engine: same losses, same text, checkpoints that either reads; what it refuses; our
weights in Tunix's classes and back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import PROMPTS, our_logits, plain_batch, request, roughened, tiny_shape
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, PrecisionConfig
from workings.engines.base import Sampler
from workings.engines.jax.engine import JaxEngine
from workings.errors import RequestError

nnx = pytest.importorskip("flax.nnx")
pytest.importorskip("tunix")
# Tunix uses names that Flax has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ASKED = request(tiny_shape("gemma", kv_heads=1), optimizer=AdamWConfig(name="adamw", weight_decay=0.1, clip_norm=0.5))


@pytest.fixture(scope="module")
def tunix() -> Any:
    """Imported here, where Flax's warnings are ignored."""
    from workings.engines.tunix.engine import TunixEngine

    return TunixEngine


def test_twenty_steps_a_checkpoint_and_an_answer_are_those_of_the_jax_engine(tunix: Any, tmp_path: Path) -> None:
    ours, theirs = JaxEngine.open(ASKED), tunix.open(ASKED)
    state, their_state = ours.init(0), theirs.init(0)
    for i in range(20):
        batch = plain_batch(ASKED.shape, i % 3)
        state, result = ours.step(state, batch, 3e-3)
        their_state, their_result = theirs.step(their_state, batch, 3e-3)
        np.testing.assert_allclose(their_result.loss, result.loss, rtol=1e-4)
        np.testing.assert_allclose(their_result.grad_norm, result.grad_norm, rtol=1e-4)
        assert 0.99 < their_result.share_of_weights_changed <= 1
    first = plain_batch(ASKED.shape, 0)
    np.testing.assert_allclose(theirs.evaluate(their_state, first).loss_sum, ours.evaluate(state, first).loss_sum,
                               rtol=1e-4)
    stop = ours.generate(state, PROMPTS, max_new_tokens=8, stop_ids=[])[1].tokens[3]
    asked: dict[str, Any] = {"max_new_tokens": 8, "stop_ids": [stop]}
    answers = theirs.generate(their_state, PROMPTS, **asked)  # Tunix does not say which token ended an answer
    assert answers == [replace(each, stop_token=None) for each in ours.generate(state, PROMPTS, **asked)]
    assert not isinstance(theirs, Sampler)

    theirs.save(their_state, tmp_path)
    batch = plain_batch(ASKED.shape, 7)
    _, from_ours = ours.step(ours.restore(tmp_path), batch, 1e-3)
    again, resumed = theirs.step(theirs.restore(tmp_path), batch, 1e-3)
    their_state, straight = theirs.step(their_state, batch, 1e-3)
    assert resumed == straight
    for x, y in zip(jax.tree.leaves(again), jax.tree.leaves(their_state), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    np.testing.assert_allclose(from_ours.loss, straight.loss, rtol=1e-4)


@pytest.mark.parametrize(("changes", "said"), [
    ({"packed": True}, r"data\.packing"), ({"memory": MemoryConfig(attention="flash")}, r"memory\.attention: flash"),
    ({"precision": PrecisionConfig(parameters="bf16")}, r"precision\.compute: fp32"),
    ({"optimizer": AdafactorConfig(name="adafactor")}, r"optimizer\.name: adafactor"),
    ({"shape": tiny_shape("llama")}, "family llama"), ({"shape": tiny_shape(query_scale=0.1)}, "query_scale"),
])
def test_what_tunix_cannot_do_is_refused_with_a_way_out(tunix: Any, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as refused:
        tunix.open(request(**({"shape": ASKED.shape} | changes)))
    assert "engine=jax" in refused.value.try_next


def test_gemma2_prompts_are_never_padded(tunix: Any) -> None:
    """Where Tunix's Gemma 2 would lose its window, prompts of different lengths are answered apart."""
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8], [9]]
    gemma2 = tunix.open(request(tiny_shape("gemma2", query_scale=0.0)))
    assert gemma2.prompt_batches(prompts) == [([0, 2], 3), ([1], 2), ([3], 1)]
    assert tunix.open(ASKED).prompt_batches(prompts) == [([3, 1, 0, 2], 16)]


def test_accumulation_is_refused_because_it_would_weigh_rows_wrongly(tunix: Any) -> None:
    batch = plain_batch(ASKED.shape, 0)
    two = type(batch)(**{name: np.concatenate([x, x]) for name, x in batch.arrays.items()})
    with pytest.raises(RequestError, match=r"batch\.accumulation: 2"):
        tunix.open(ASKED).inspect(two)


GEMMA3 = {"query_scale": 0.0, "layers": 6, "sliding_pattern": 6, "rope_scaling": 8.0}


def their_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    index = jnp.arange(tokens.shape[1])[None]
    mask = index[..., None] >= index[:, None]
    return np.asarray(nnx.jit(lambda m, t: m(t, index, None, mask)[0])(model, tokens))


@pytest.mark.parametrize(("family", "changes", "dtype"), [
    pytest.param("gemma", {"kv_heads": 2}, "bf16", marks=pytest.mark.full), ("gemma", {"kv_heads": 4}, "fp32"),
    pytest.param("gemma2", {"query_scale": 0.0}, "fp32", marks=pytest.mark.full),
    ("gemma3", GEMMA3, "fp32"),
])
def test_tunix_classes_compute_our_logits_and_give_the_weights_back_bit_for_bit(
        family: str, changes: dict[str, Any], dtype: str) -> None:
    """Gemma 1 with both of Tunix's layouts of k and v; Gemma 2 with both caps, a window of four and its four norms;
    Gemma 3 with its norms on q and k, both rope bases and a scaled one."""
    from workings.engines.tunix.bridge import from_tunix, tunix_model

    shape = tiny_shape(family, **changes)
    engine = JaxEngine.open(request(shape, precision=PrecisionConfig(parameters=dtype)))
    params = roughened(engine)["params"]
    model = tunix_model(params, shape)
    theirs = {path: x.get_value() for path, x in nnx.to_flat_state(nnx.state(model, nnx.Param))}
    back = from_tunix(theirs, shape, params)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    if dtype == "fp32":
        tokens = np.array([PROMPTS[0]], np.int32)
        ours, theirs = our_logits(engine, {"params": params}, tokens), their_logits(model, tokens)
        assert np.abs(theirs).max() > 0.5
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()
