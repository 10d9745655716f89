"""Our forward and our greedy generation against transformers, on exported small random models of every family."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import FAMILIES, request, tiny_shape
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.model import final_logits, hidden_states, unembedding

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def our_logits(engine: JaxEngine, params: dict, tokens: np.ndarray) -> np.ndarray:
    """``[B, S, V]`` logits of rows without padding."""
    spec = engine.spec
    positions = np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), tokens.shape)

    @jax.jit
    def logits(params: dict, tokens: jax.Array) -> jax.Array:
        hidden = hidden_states(params, spec.shape, tokens, jnp.asarray(positions), jnp.ones_like(tokens),
                               attention=spec.attention, remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout)
        return final_logits(hidden, unembedding(params), spec.shape)

    return np.asarray(logits(params, jnp.asarray(tokens)))


def exported(family: str, folder: Path, **changes: object):
    """Engine, state and the same model opened by transformers (float32, plain attention)."""
    engine = JaxEngine.open(request(tiny_shape(family, **changes)))
    state = engine.init(3)
    # Random norms, biases and larger matrices: at their initial values several features would be invisible.
    draw = np.random.default_rng(1)
    layers = {name: jnp.asarray(x + draw.normal(0, 0.3, x.shape).astype(np.float32))
              for name, x in state["params"]["layers"].items()}
    state = state | {"params": state["params"] | {"layers": layers}}
    engine.export(state, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return engine, state, model.eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family: str, tmp_path: Path) -> None:
    engine, state, model = exported(family, tmp_path)
    tokens = np.random.default_rng(0).integers(0, 61, (2, 14)).astype(np.int32)
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens).long()).logits.numpy()
    ours = our_logits(engine, state["params"], tokens)
    assert np.abs(theirs).max() > 0.5
    assert np.abs(ours - theirs).max() < 1e-5 * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize(("family", "changes"), [
    ("gemma3", {"rope_scaling": 8.0, "layers": 6, "sliding_pattern": 3}),
    ("llama", {"rope_llama3": (32.0, 1.0, 4.0, 16)}),
    ("llama", {"tied_embeddings": True}),
    ("qwen2", {"tied_embeddings": False}),
])
def test_variants_equal_transformers(family: str, changes: dict, tmp_path: Path) -> None:
    engine, state, model = exported(family, tmp_path, **changes)
    tokens = np.random.default_rng(0).integers(0, 61, (2, 40)).astype(np.int32)
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens).long()).logits.numpy()
    assert np.abs(our_logits(engine, state["params"], tokens) - theirs).max() < 2e-5 * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_equals_transformers(family: str, tmp_path: Path) -> None:
    """Prompts of different lengths in one padded batch; transformers gets them one by one. Longer than the window."""
    engine, state, model = exported(family, tmp_path)
    draw = np.random.default_rng(5)
    prompts = [draw.integers(0, 61, n).tolist() for n in (3, 9, 1, 17, 6)]
    answers = engine.generate(state, prompts, max_new_tokens=12, stop_ids=[])
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            whole = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                                   max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert answer.tokens == whole[0, len(prompt):].tolist()
        assert answer.finish_reason == "length"


def test_a_transformers_checkpoint_loads_and_comes_back_unchanged(tmp_path: Path) -> None:
    """Weights written by transformers, sharded, are read by our loader with equal logits."""
    engine, state, model = exported("gemma2", tmp_path)
    folder = tmp_path / "theirs"
    model.save_pretrained(folder, max_shard_size="30KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    loaded = engine.load(folder)
    tokens = np.arange(20, dtype=np.int32)[None]
    np.testing.assert_array_equal(our_logits(engine, loaded["params"], tokens),
                                  our_logits(engine, state["params"], tokens))
