"""OLMo 3's stretched rotation on the PyTorch engine against plain transformers: its class, eager, our export."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import our_logits, request
from tests.engines.torch_oracle import opened, plain, roughened, their_logits
from workings.engines.jax.engine import JaxEngine

FORM = "olmo3 stretched"
ROWS = np.random.default_rng(5).integers(0, 61, (2, 40)).astype(np.int32)


@pytest.mark.parametrize("kind", ["global", "sliding"])
def test_global_layers_of_an_olmo_are_stretched_and_sliding_ones_are_not(kind: str, tmp_path: Path) -> None:
    """All layers of one kind: plain transformers computes the very same, with YaRN and without it."""
    engine = opened(FORM, shape={"layer_types": (kind,) * 4})
    state = roughened(engine)
    engine.export(state, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    if kind == "sliding":
        assert config.pop("rope_scaling")["rope_type"] == "yarn"
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ours, theirs = our_logits(engine, state, ROWS), their_logits(plain(tmp_path), ROWS)
    assert np.abs(ours - theirs).max() < 2e-5 * np.abs(theirs).max()


def test_both_engines_turn_the_two_kinds_of_layers_alike(tmp_path: Path) -> None:
    """Global layers stretched and sliding ones plain, as OLMo-core and vLLM; transformers 5.12 stretches all layers."""
    engine = opened(FORM)
    state = roughened(engine)
    engine.export(state, tmp_path)
    ours, other = our_logits(engine, state, ROWS), JaxEngine.open(request(engine.spec.shape))
    assert np.abs(our_logits(other, other.load(tmp_path), ROWS) - ours).max() < 2e-5 * np.abs(ours).max()
