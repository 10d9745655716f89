"""Our forward and our greedy generation against transformers, on exported small random models of every family."""

from pathlib import Path

import numpy as np
import pytest

from tests.engines.jax_oracle import exported, our_logits
from tests.engines.tiny import FAMILIES

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("family", [
    # Of these three a variant is compared below.
    pytest.param(family, marks=pytest.mark.full) if family in ("gemma3", "llama", "qwen2") else family
    for family in FAMILIES])
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
    pytest.param("llama", {"tied_embeddings": True}, marks=pytest.mark.full),
    ("qwen2", {"tied_embeddings": False}),
])
def test_variants_equal_transformers(family: str, changes: dict, tmp_path: Path) -> None:
    engine, state, model = exported(family, tmp_path, **changes)
    tokens = np.random.default_rng(0).integers(0, 61, (2, 40)).astype(np.int32)
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens).long()).logits.numpy()
    assert np.abs(our_logits(engine, state["params"], tokens) - theirs).max() < 2e-5 * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("family", [
    # With them a cache has windows and layers without positions; Gemma 4's text is in `test_gemma4_jax.py`.
    family if family in ("gemma3", "smollm3") else pytest.param(family, marks=pytest.mark.full)
    for family in FAMILIES])
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
