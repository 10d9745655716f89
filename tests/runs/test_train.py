"""Whole runs with an engine from another package: what is written, what is refused, what a resumed run equals."""

import json
import re
import signal
import time

import pytest
from typer.testing import CliRunner

import workings
from tests.record import synthetic
from tests.runs.runs_helpers import OTHER_PACKAGE, RECIPE, last_weights, train_refuses, write_recipe
from workings.cli.main import app
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.record import storage
from workings.record.metrics import TIME_AND_MEMORY
from workings.record.reader import RunRecord
from workings.record.writer import RunWriter
from workings.runs.create_or_resume import run_directory
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of the recipe that nothing disturbed, with its evaluations. Tests only read it."""
    folder = tmp_path_factory.mktemp("straight")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        return train_and_evaluate(str(write_recipe(folder / "asked")), folder / "runs" / "a")


def test_a_run_is_sealed_however_much_memory_its_own_rows_take(tmp_path, monkeypatch):
    """The limit on what is read holds for records of other people: a million traces have 227 MB of rows."""
    monkeypatch.syspath_prepend(str(OTHER_PACKAGE))
    monkeypatch.setattr(storage, "MEMORY_MIB", 0)
    assert train(str(write_recipe(tmp_path)), tmp_path / "run").status == "complete"


def lines(run):
    return [{key: value for key, value in line.items() if key not in TIME_AND_MEMORY}
            for line in RunRecord.open(run).metrics()]


@pytest.fixture
def child(start_forked):
    """Starts ``workings train`` in its own process."""
    return lambda recipe, out, *words, **environment: start_forked(
        "-m", "workings", "train", recipe, "--out", out, *words, environment=environment)


def wait_for_steps(out, count):
    metrics = out.with_name(out.name + ".partial") / "train" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < count:
        time.sleep(0.005)


def test_a_run_is_complete_listed_learns_and_verifies(straight):
    result = straight
    run = RunRecord.open(result.training.run)
    listed = [json.loads(line) for line in (run.path.parent / "attempts.jsonl").read_text().splitlines()]
    assert [(line["run"], line["resume"]) for line in listed] == [("a", False)]
    log = (run.path / "train" / "training_log.txt").read_text()
    for said in ("micro 4 x accumulation 2 x devices 1 = global 8 rows; 12 steps", "40 rows", f"writing    {run.path}"):
        assert said in log
    metrics = run.metrics()
    assert [line["step"] for line in metrics] == list(range(1, 13))
    assert metrics[-1]["loss"] < metrics[0]["loss"] - 0.5
    assert [line["step"] for line in metrics if "evaluation_loss" in line] == [4, 8, 12]
    assert run.manifest.final_loss == metrics[-1]["loss"] == result.training.final_loss
    assert run.manifest.global_batch == 8
    assert run.manifest.supervised_tokens == sum(line["supervised_tokens"] for line in metrics)
    assert [path.name for path in run.checkpoints.folders()] == ["step_000009", "step_000012"]
    assert result.scorecard.overall.n == 10
    found = verify(result.training.run)
    assert found.failed == 0, found
    assert found.level == 2
    foreign = next(check for check in found.checks if check.id == "consistency.engine")
    assert foreign.verdict == "not_checked"
    assert "workings-other-engine 1.0" in foreign.text


def test_a_place_that_cannot_be_written_is_said_at_once(recipe, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RequestError, match="no folder can be created in"):
        train(str(recipe), tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(("override", "said"), [
    ("data.traces=absent.jsonl", "absent.jsonl"),
    ("tokenizer=model", "this model has no tokenizer"),
    ("engine=jaxx", "a registered engine"),
    ("data.max_length=16", "max_length (16)"),
])
def test_what_is_not_there_is_named_before_anything_is_written(recipe, tmp_path, override, said):
    train_refuses(recipe, tmp_path / "run", [override], said)


def test_not_a_number_stops_at_the_last_good_checkpoint(straight, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("UNIGRAM_NAN_AT", "8")
    found = train_and_evaluate(str(recipe), tmp_path / "run")
    result, run = found.training, RunRecord.open(tmp_path / "run")
    assert "is the last good state" in found.sentence()
    assert (result.status, run.status, result.steps) == ("failed", "failed", 7)
    assert "step 8: loss nan" in run.manifest.status_reason
    assert [path.name for path in run.checkpoints.folders()] == ["step_000003", "step_000006"]
    assert verify(result.run).failed == 0
    # once the cause is gone the run resumes from step 6 and ends as if nothing had happened
    monkeypatch.delenv("UNIGRAM_NAN_AT")
    again = train(str(recipe), tmp_path / "run", resume=True)
    assert again.status == "complete"
    assert (tmp_path / "run.interrupted-1").is_dir()
    assert lines(again.run) == lines(straight.training.run)


def test_a_run_that_failed_in_its_first_step_says_that_there_is_no_checkpoint(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("UNIGRAM_NAN_AT", "1")
    assert "there is no checkpoint" in train_and_evaluate(str(recipe), tmp_path / "run").sentence()


def test_killed_before_its_first_event_it_starts_when_it_is_resumed(recipe, tmp_path):
    RunWriter.create(tmp_path / "killed").close()
    assert train(str(recipe), tmp_path / "killed", resume=True).status == "complete"
    assert RunRecord.open(tmp_path / "killed").manifest.resumes == 0
    assert verify(tmp_path / "killed").failed == 0


def test_a_polite_stop_saves_and_says_how_to_go_on(straight, child, recipe, tmp_path):
    out = tmp_path / "run"
    process = child(recipe, out, UNIGRAM_SECONDS="0.05")
    wait_for_steps(out, 2)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate()
    assert process.returncode == 130
    assert "--resume" in said
    stopped = RunRecord.open(out)
    assert stopped.status == "interrupted"
    assert stopped.checkpoints.folders()[-1].name == f"step_{stopped.manifest.completed_steps:06d}"
    assert train(str(recipe), out, resume=True).status == "complete"
    assert lines(out) == lines(straight.training.run)


def test_a_refused_resumption_leaves_a_sealed_run_where_it_stands(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("UNIGRAM_NAN_AT", "8")
    sealed = RunRecord.open(train(str(recipe), tmp_path / "run").run)
    train(str(recipe), tmp_path / "typed", ["training.learning_rate=0.25"])
    monkeypatch.delenv("UNIGRAM_NAN_AT")
    with pytest.raises(RequestError, match=r"0\.25 before, 0\.5 now(?s:.*)with: training\.learning_rate=0\.25;"):
        train(str(recipe), tmp_path / "typed", resume=True)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RequestError, match=r"training\.learning_rate: 0\.5 before, 0\.1 now"):
        train(str(recipe), tmp_path / "run", ["training.learning_rate=0.1"], resume=True)
    assert sorted({path.name for path in tmp_path.iterdir()} - {"attempts.jsonl"}) == [
        name for name in before if name != "attempts.jsonl"]
    assert RunRecord.open(tmp_path / "run").root == sealed.root
    traces = recipe.with_name("traces.jsonl")
    kept = traces.read_bytes()
    traces.write_bytes(b"".join(kept.splitlines(keepends=True)[:-1]))
    with pytest.raises(RequestError, match="traces: "):
        train(str(recipe), tmp_path / "run", resume=True)
    traces.write_bytes(kept)
    assert train(str(recipe), tmp_path / "run", resume=True).status == "complete"


def test_a_resumption_without_overrides_takes_those_of_the_run(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UNIGRAM_NAN_AT", "8")
    (tmp_path / "more.jsonl").write_bytes(recipe.with_name("traces.jsonl").read_bytes())
    words = ["training.learning_rate=0.25", "data.traces=more.jsonl"]
    monkeypatch.chdir(tmp_path)
    workings.train(str(recipe), "run", words)
    monkeypatch.delenv("UNIGRAM_NAN_AT")
    # From another folder: the recorded path is one from the recipe's folder.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert workings.train(str(recipe), tmp_path / "run", resume=True).status == "complete"
    assert "original overrides: training.learning_rate=0.25 data.traces=" in capsys.readouterr().err
    assert RunRecord.open(tmp_path / "run").manifest.config["training"]["learning_rate"] == 0.25


def test_killed_it_ends_bit_for_bit_the_same_and_a_truncated_checkpoint_is_passed_over_and_named(
        straight, child, recipe, tmp_path):
    out, partial = tmp_path / "run", tmp_path / "run.partial"
    process = child(recipe, out, UNIGRAM_SECONDS="0.05")
    wait_for_steps(out, 8)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not out.exists()
    newest = sorted((partial / "checkpoints").glob("step_*"))[-1]
    with (newest / "model.safetensors").open("r+b") as file:
        file.truncate(64)
    with (partial / "train" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 9, "lo')  # a torn last line
    train(str(recipe), out, resume=True)
    events = RunRecord.open(out).events()
    resumed = next(event for event in events if event["kind"] == "resumed")
    assert resumed["from_step"] == 3
    assert newest.name in resumed["damaged_checkpoints"][0]
    assert any(event["kind"] == "torn_line" for event in events)
    assert lines(out) == lines(straight.training.run)
    assert last_weights(out) == last_weights(straight.training.run)
    assert RunRecord.open(out).manifest.resumes == 1
    assert verify(out).failed == 0


@pytest.mark.parametrize(("name", "resume", "said"), [
    ("begun", False, "--resume to continue that run, or another --out"),
    ("done", False, "choose another --out, or add --resume if that run did not finish"),
    ("done", True, "or another --out for a new run"),
    ("never", True, "leave --resume out to start it")])
def test_a_taken_or_missing_run_directory_is_refused_before_planning(recipe, tmp_path, monkeypatch, name, resume, said):
    synthetic.sealed_run(tmp_path / "done")
    (tmp_path / "begun.partial").mkdir()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("workings.runs.train.prepare", lambda *given: pytest.fail("data and plan were prepared"))
    with pytest.raises(RequestError) as refused:
        train(str(recipe), tmp_path / name, resume=resume)
    assert said in refused.value.try_next
    assert sorted(tmp_path.iterdir()) == before


def test_smoke_keeps_the_recipe_and_shrinks_the_model(tmp_path):
    text = RECIPE.replace("steps: 12", "steps: 100000").replace("width: 8,", "width: 4096,")
    path = write_recipe(tmp_path / "asked", text)
    result = train_and_evaluate(str(path), tmp_path / "run", smoke=3)
    manifest = RunRecord.open(result.training.run).manifest
    assert (manifest.completed_steps, manifest.recipe, manifest.facts["smoke"]) == (3, "unigram-smoke", True)
    assert manifest.config["model"]["shape"]["width"] == 32
    assert (result.training.run / "config" / "recipe.yaml").read_text() == path.read_text()
    # The untrained tiny model is evaluated as well, and no other run will begin with it.
    assert "compared with the untrained model: " in result.sentence()
    assert {"base", "base_accuracy"} & result.to_json().keys() == {"base_accuracy"}
    assert {each.name for each in tmp_path.iterdir()} == {"asked", "run", "attempts.jsonl"}


def test_a_run_that_learned_nothing_ends_with_exit_code_1(recipe, tmp_path):
    words = ["train", str(recipe), "training.learning_rate=1e-60", "evaluation={}", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 1, done.output
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == "complete"
    assert "no update changed a weight" in result["learned_nothing"]


def test_empty_rows_and_the_form_of_a_completion_are_said_before_the_first_step(recipe, tmp_path):
    words = ["batch.accumulation=64", "training.steps=1", "training.warmup_steps=0"]
    run = train(str(recipe), tmp_path / "run", words).run
    log = (run / "train" / "training_log.txt").read_text()
    rows = int(re.search(r"data +(\d+) rows", log)[1])
    assert 1.5 * rows < 4 * 64
    assert f"rows of an epoch's updates are empty; try: batch.accumulation={-(-rows // 4)}" in log
    assert 'learned    "<reasoning>…</reasoning><answer>…</answer>' in log
    assert verify(run).failed == 0


def test_the_next_free_number_and_what_resumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(run_directory("tiny")) == "runs/tiny"
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/tiny-2.partial").mkdir()
    assert str(run_directory("tiny")) == "runs/tiny-3"
    with pytest.raises(RequestError, match="--out runs/tiny"):
        run_directory("tiny", resume=True)
