"""Expert iteration: what is refused, whole rounds on both engines, resuming where it was killed."""

import json
import shutil
from pathlib import Path

import pytest

from tests.runs.improving import improved, write_task
from tests.runs.runs_helpers import refused
from workings.errors import Interrupted, RequestError
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.runs.improve import TIMINGS_FILE, ImproveRequest, improve
from workings.samples.unit import SampleUnit


def request(folder: Path, **changed) -> ImproveRequest:
    return ImproveRequest(**{"rounds": 2, "prompts": str(folder / "prompts.jsonl"), "all_rounds": True} | changed)


def test_a_held_out_item_among_the_prompts_is_refused(tmp_path):
    recipe = write_task(tmp_path)
    with pytest.raises(RequestError, match=r"8 of --prompts are also held-out items: q100, q101, q102"):
        improve(str(recipe), tmp_path / "out", request=request(tmp_path, prompts=str(tmp_path / "items.jsonl")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("words", "changed", "said"), [
    (["evaluation={items: none}"], {}, "has no evaluation.items"),
    (['algorithm={"name": "grpo", "max_new_tokens": 16}', "rewards=[{scorer: answer}]", "batch.micro_batch=8"], {},
     "algorithm.name: grpo"),
    ([], {"temperature": 0.0}, "evaluation setting samples cannot be 4"),
])
def test_what_cannot_be_improved_is_refused_before_anything_is_trained(tmp_path, words, changed, said):
    with pytest.raises(RequestError, match=said):
        improve(str(write_task(tmp_path)), tmp_path / "out", words, request=request(tmp_path, **changed))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["prompts", "traces", "items"])
def test_what_was_begun_does_not_go_on_with_other_data(tmp_path, monkeypatch, name):
    recipe = write_task(tmp_path)

    def stopped(steps):
        raise Interrupted("stopped")

    monkeypatch.setattr("workings.runs.improve.ImprovementSteps.all", stopped)
    with pytest.raises(Interrupted):
        improve(str(recipe), tmp_path / "out", request=request(tmp_path))
    file = tmp_path / f"{name}.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(RequestError, match=f"belongs to another request: contents of {name}"):
        improve(str(recipe), tmp_path / "out", request=request(tmp_path))


@pytest.mark.slow
def test_a_round_and_a_further_round(run_forked, tmp_path):
    recipe, out = write_task(tmp_path, engine="torch"), tmp_path / "out"
    words = ("improve", recipe, "--prompts", tmp_path / "prompts.jsonl", "--out", out, "--rounds", "1",
             "--samples", "2", "--most", "1", "--all-rounds", "--json")
    done = run_forked("-m", "workings", *words)
    told = json.loads(done.stdout.splitlines()[-1])
    parts = [json.loads(line) for line in (out / TIMINGS_FILE).read_text().splitlines()]
    assert [part["part"] for part in parts] == ["runs/round_0", "samples/for_round_1", "runs/round_1"]
    assert told["seconds"] == round(sum(part['seconds'] for part in parts), 1)
    runs = [RunRecord.open(out / "runs" / f"round_{number}") for number in range(2)]
    assert told["runs"] == [str(run.path) for run in runs]
    assert len(told["accuracies"]) == 2
    assert told["verdict"] in ("better", "inconclusive")
    assert told["stopped"] == ""
    # Each round is trained from the first weights, on the recipe's own traces and what was kept for it.
    first = SampleUnit.open(out / "samples" / "for_round_1")
    assert first.config["made_from"] == runs[0].root
    assert told["rounds"][1]["kept"] == len(first.kept) == first.counts.with_kept > 0
    trained = [json.loads(row) for row in (out / "traces" / "round_1.jsonl").read_text().splitlines()]
    assert [row["id"] for row in trained] == [f"t{n}" for n in range(12)] + [trace.id for trace in first.kept]
    assert {row["drawn_from"] for row in trained[12:]} == {runs[0].root}
    assert runs[1].manifest.completed_steps == runs[0].manifest.completed_steps == 40
    assert len({run.manifest.data_digests["tokenizer"] for run in runs}) == 1
    assert json.loads((out / "rounds.json").read_text()) == told
    assert not verify(out).failed

    # The same command finds everything finished, and says the same; another one is refused.
    again = json.loads(run_forked("-m", "workings", *words).stdout.splitlines()[-1])
    assert again == told
    other = [word if word != "2" else "3" for word in words]
    assert "belongs to another request: samples" in refused(*other)

    # More rounds are made behind those that are there, and a control that had as long as all of them.
    seals = {run.path: (run.path / "SEAL.json").stat().st_mtime_ns for run in runs}
    further = json.loads(run_forked("-m", "workings", *words, "--rounds", "2").stdout.splitlines()[-1])
    assert further["accuracies"][:2] == told["accuracies"]
    assert further["accuracies"][-1] == 1.0
    assert [Path(run).name for run in further["runs"]] == [f"round_{number}" for number in range(3)]
    assert {path: (path / "SEAL.json").stat().st_mtime_ns for path in seals} == seals
    assert not verify(out).failed
    assert "--rounds 1 is below the 2" in refused(*words)


@pytest.mark.slow
def test_what_was_killed_goes_on(tmp_path, monkeypatch):
    straight = improved(tmp_path)
    # As if killed between the seal of a run and its evaluation, and between drawing and training.
    again = shutil.copytree(straight, tmp_path / "again")
    shutil.rmtree(again / "runs" / "round_0" / "eval")
    shutil.rmtree(again / "runs" / "round_1")
    (again / "traces" / "round_1.jsonl").unlink()
    monkeypatch.chdir(tmp_path)
    told = improve(str(tmp_path / "recipe.yaml"), again, request=request(tmp_path, rounds=1, prompts="prompts.jsonl"))
    assert told.to_json()["accuracies"] == json.loads((straight / "rounds.json").read_text())["accuracies"]
    weights = [(out / "runs" / "round_1" / "checkpoints" / "step_000040" / "model.safetensors").read_bytes()
               for out in (straight, again)]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_nothing_kept_ends_it(tmp_path):
    write_task(tmp_path)
    told = improve(str(tmp_path / "recipe.yaml"), tmp_path / "out", ["training.steps=1", "training.warmup_steps=0"],
                   request=request(tmp_path))
    assert told.stopped == "round 1: none of the samples was kept"
    assert len(told.rounds) == 1
    assert told.sentence == "No round was made: round 1: none of the samples was kept."


@pytest.mark.slow
def test_a_round_that_does_not_help_is_the_last(tmp_path):
    told = improve(str(write_task(tmp_path, engine="torch")), tmp_path / "out",
                   request=request(tmp_path, all_rounds=False, rounds=3))
    assert told.rounds[0].overall["mean"] == 1.0  # there is nothing left to improve
    assert len(told.rounds) == 2
    assert told.stopped.startswith("round 1 did not help: +0.0 points (95 % interval")
    assert "left the model at 100.0 % right: +0.0 points" in told.sentence
    assert "--all-rounds after one that did not help" in told.text()
