"""Weights to Tunix's classes and back, and our model in the hands of Tunix's sampler and trainer."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.jax_oracle import our_logits
from tests.engines.tiny import PROMPTS, plain_batch, request, tiny_shape
from workings.config.training import PrecisionConfig
from workings.engines.jax.engine import JaxEngine
from workings.errors import RequestError
from workings.models.shape import ModelShape

nnx = pytest.importorskip("flax.nnx")
pytest.importorskip("tunix")
# Tunix uses names that Flax has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

GEMMA3 = {"query_scale": 0.0, "layers": 6, "sliding_pattern": 6, "rope_scaling": 8.0}


def noisy(engine: JaxEngine, seed: int = 0) -> dict:
    """A state whose norms are not what they start as."""
    state, draw = engine.init(seed), np.random.default_rng(seed)
    layers = {name: jnp.asarray(np.asarray(x) + draw.normal(0, 0.2, x.shape).astype(x.dtype))
              for name, x in state["params"]["layers"].items()}
    return state | {"params": state["params"] | {"layers": layers}}


@pytest.mark.parametrize(("family", "changes", "dtype"), [
    pytest.param("gemma", {"kv_heads": 2}, "fp32", marks=pytest.mark.full), ("gemma", {"kv_heads": 4}, "bf16"),
    pytest.param("gemma2", {"query_scale": 0.0}, "bf16", marks=pytest.mark.full),
    ("gemma3", GEMMA3, "fp32"),
])
def test_weights_come_back_bit_for_bit(family: str, changes: dict[str, Any], dtype: str) -> None:
    from workings.engines.tunix.bridge import our_params, tunix_model

    shape = tiny_shape(family, **changes)
    engine = JaxEngine.open(request(shape, precision=PrecisionConfig(parameters=dtype)))
    params = noisy(engine)["params"]
    back = our_params(tunix_model(params, shape), shape)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize(("changes", "said"), [
    ({"family": "llama"}, "family llama"), ({"sliding_pattern": 2, "family": "gemma3"}, "a global layer every 2"),
    ({"query_scale": 0.1}, "query_scale"), ({"rms_norm_eps": 1e-5}, "rms_norm_eps"),
])
def test_what_tunix_cannot_be_is_said(changes: dict[str, Any], said: str) -> None:
    from workings.engines.tunix.models import check_shape

    shape = tiny_shape(changes.pop("family", "gemma"), **changes)
    with pytest.raises(RequestError, match=said):
        check_shape(shape)


def sampled(model: Any, shape: ModelShape, prompts: list[list[int]], count: int) -> list[list[int]]:
    from workings.engines.tunix.sampler import greedy, make_sampler

    padded = max(map(len, prompts))
    found = greedy(make_sampler(model, shape, padded + count), prompts, padded=padded, max_new_tokens=count,
                   stop_ids=[])
    return [completion.tokens for completion in found]


def test_tunix_samples_our_model_to_our_greedy_text() -> None:
    """Prompts of two lengths (so one is padded), far longer than the window of four."""
    from workings.engines.tunix.bridge import OurModel

    shape = tiny_shape("gemma2")
    engine = JaxEngine.open(request(shape))
    state = noisy(engine, 3)
    ours = [answer.tokens for answer in engine.generate(state, PROMPTS, max_new_tokens=10, stop_ids=[])]
    assert sampled(OurModel(state["params"], shape), shape, PROMPTS, 10) == ours


def test_tunix_loads_our_export_with_equal_logits_and_greedy_text(tmp_path: Path) -> None:
    """Tunix's own loader of safetensors, its own model, its own sampler."""
    from tunix.models.gemma3 import params_safetensors

    from workings.engines.tunix.models import model_class

    shape = tiny_shape("gemma3", **GEMMA3)
    engine = JaxEngine.open(request(shape))
    state = noisy(engine, 3)
    engine.export(state, tmp_path)
    config = nnx.eval_shape(model_class(shape)).config
    model = params_safetensors.create_model_from_safe_tensors(str(tmp_path), config, dtype=jnp.float32)
    tokens = np.array([PROMPTS[0]], np.int32)
    index = jnp.arange(tokens.shape[1])[None]
    mask = index[..., None] >= index[:, None]
    theirs = np.asarray(nnx.jit(lambda m, t: m(t, index, None, mask)[0])(model, tokens))
    assert np.abs(our_logits(engine, state["params"], tokens) - theirs).max() < 1e-5 * np.abs(theirs).max()
    ours = [answer.tokens for answer in engine.generate(state, PROMPTS, max_new_tokens=10, stop_ids=[])]
    assert sampled(model, shape, PROMPTS, 10) == ours


def test_tunix_trains_our_model_with_our_losses() -> None:
    """Twenty steps of `PeftTrainer` with its own loss and optax's AdamW, beside twenty of our engine."""
    import optax
    from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig, TrainingInput

    from workings.engines.tunix.bridge import OurModel
    from workings.engines.tunix.trainer import model_input

    shape = tiny_shape("gemma2")
    engine = JaxEngine.open(request(shape))
    state = engine.init(0)
    batches = [plain_batch(shape, seed % 3) for seed in range(20)]
    trainer = PeftTrainer(OurModel(jax.tree.map(jnp.copy, state["params"]), shape), optax.adamw(3e-3, weight_decay=0.0),
                          TrainingConfig(eval_every_n_steps=100))
    losses: list[float] = []
    trainer._post_process_train_step = lambda aux: losses.append(  # type: ignore[method-assign]
        float(trainer._buffered_train_metrics.losses[-1]))
    trainer = trainer.with_gen_model_input_fn(lambda x: model_input(x.input_tokens, x.input_mask, x.images))
    # `images` carries which positions are real: Tunix's input has no other place for it.
    trainer.train([TrainingInput(input_tokens=b.tokens[0], input_mask=np.roll(b.loss_mask[0], 1, -1),
                                 images=b.segment_ids[0]) for b in batches])
    ours = []
    for batch in batches:
        state, result = engine.step(state, batch, 3e-3)
        ours.append(result.loss)
    assert ours[-1] < 0.9 * ours[0]
    np.testing.assert_allclose(losses, ours, rtol=1e-5)
