"""The JAX engine's forward pass and greedy text against transformers, on small random models of every family."""

from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import FAMILIES, our_logits, request, roughened, tiny_shape
from tests.engines.torch_oracle import LARGE, assert_equal_to_transformers, plain
from workings.engines.jax.engine import JaxEngine

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("family", "changes"), [
    # Of some families the variant below says the same.
    *((pytest.param(family, {}, marks=pytest.mark.full) if family in ("gemma3", "llama", "qwen2") else (family, {}))
      for family in FAMILIES),
    ("gemma3", {"rope_scaling": 8.0, "layers": 6, "sliding_pattern": 3}),
    ("llama", {"rope_llama3": (32.0, 1.0, 4.0, 16)}),
    pytest.param("llama", {"tied_embeddings": True}, marks=pytest.mark.full),
    ("qwen2", {"tied_embeddings": False}),
    ("gemma4", LARGE),
])
def test_logits_and_text_equal_transformers(family: str, changes: dict, tmp_path: Path) -> None:
    engine = JaxEngine.open(request(tiny_shape(family, **changes)))
    assert_equal_to_transformers(engine, roughened(engine), tmp_path)


def test_a_transformers_checkpoint_loads_and_comes_back_unchanged(tmp_path: Path) -> None:
    """Weights written by transformers, sharded, are read by our loader with equal logits."""
    engine, folder = JaxEngine.open(request(tiny_shape("gemma2"))), tmp_path / "theirs"
    state = roughened(engine)
    engine.export(state, tmp_path)
    plain(tmp_path).save_pretrained(folder, max_shard_size="30KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    tokens = np.arange(20, dtype=np.int32)[None]
    np.testing.assert_array_equal(our_logits(engine, engine.load(folder), tokens), our_logits(engine, state, tokens))
