"""The main job as a person runs it: what it leaves after a few steps, and, in `make proof`, what it finds."""

import json

import pytest

from tests.runs.runs_helpers import refused
from workings.record.reader import RunRecord

FEW = ("model.shape.layers=1", "training.steps=20", "training.warmup_steps=4", "evaluation.every_steps=10",
       "evaluation.max_new_tokens=8")


def test_quickstart_leaves_two_equal_runs_and_a_page(workings, tmp_path):
    """Few steps, one layer, short answers; XLA's options as a run has them, not those of the other tests."""
    out = tmp_path / "quickstart"
    done = workings("quickstart", "--tiny", *FEW, "--out", out, "--seed", "5", "--json", environment={"XLA_FLAGS": ""})
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["items"] >= 500
    assert found["verdict"] in ("better", "worse", "inconclusive")

    runs = [RunRecord.open(out / "runs" / name) for name in ("with-steps", "answer-only")]
    assert [str(run.path) for run in runs] == found["runs"]
    with_steps, answer_only = (run.manifest for run in runs)
    assert with_steps.completed_steps == 20
    assert with_steps.final_loss < runs[0].metrics()[0]["loss"] / 2
    for same in ("completed_steps", "seed", "global_batch", "parameters", "hardware"):
        assert getattr(with_steps, same) == getattr(answer_only, same), same
    for same in ("traces", "items", "tokenizer"):
        assert with_steps.data_digests[same] == answer_only.data_digests[same]
    assert found["supervised_tokens"] == {"with-steps": with_steps.supervised_tokens,
                                          "answer-only": answer_only.supervised_tokens}
    # no problem that is asked was trained on, in either order
    operands = [{frozenset(json.loads(line)["prompt"][8:-1].split("+")) for line in path.read_text().splitlines()}
                for path in (out / "data" / "traces.jsonl", out / "data" / "items.jsonl")]
    assert not operands[0] & operands[1]
    assert (out / "report.html").stat().st_size > 10_000
    assert json.loads((out / "data" / "manifest.json").read_text())["made_by"]["seed"] == with_steps.seed == 5


def test_an_override_that_is_wrong_leaves_nothing(tmp_path):
    said = refused("quickstart", "--tiny", "training.stps=40", "--out", tmp_path / "quickstart")
    assert "did you mean `training.steps`?" in said
    assert not (tmp_path / "quickstart").exists()


@pytest.mark.full
def test_quickstart_finds_that_steps_help(workings, tmp_path):
    out = tmp_path / "quickstart"
    done = workings("quickstart", "--tiny", "--out", out, "--json", environment={"XLA_FLAGS": ""})
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["traces_accuracy"] >= 0.95
    assert found["answer_only_accuracy"] <= 0.40
    assert found["p_value"] < 1e-6
    assert found["verdict"] == "better"
    answer = json.loads(workings("ask", out / "runs" / "with-steps", "What is 47+25?", "--json").stdout)
    assert answer["completion"] == "<reasoning>7+5=12, write 2 carry 1\n4+2+1=7</reasoning><answer>72</answer>"
