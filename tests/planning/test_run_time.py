"""Seconds of a run, and what finished runs say."""

import json
from dataclasses import replace
from zipfile import ZipFile

import pytest

from tests.planning.planning_helpers import planned_run, recipe, request_of, rewarded, shape
from workings.config.load import check_recipe, load_recipe
from workings.engines.base import MeshShape
from workings.hardware.catalog import targets
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.planning import history
from workings.planning.history import FinishedRun, finished_runs, measured_throughput
from workings.planning.inspection_cache import extrapolate, shallow_depths
from workings.planning.run_time import (
    DISK_BYTES_A_SECOND,
    Throughput,
    estimate_run_time,
    flop_text,
    step_operations,
    step_seconds,
)
from workings.record.number_text import duration
from workings.record.reader import RunRecord
from workings.runs.plan_time import count_items


def test_times_for_people():
    assert [duration(n) for n in (3.21, 600, 5400, 360000)] == ["3.21 s", "10 min", "1 h 30 min", "4.2 days"]


def test_a_whole_run_by_hand():
    asked = recipe(training={"steps": 100, "learning_rate": 1e-3}, checkpoint={"every_steps": 40, "keep_last": 2},
                   evaluation={"items": "eval", "every_steps": 50, "samples": 1, "batch_size": 64, "base": False},
                   precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"})
    request = request_of(asked)
    spent = estimate_run_time(planned_run(asked, "l4", request=request), 0.5, items=100, held_out=0)
    assert spent.training_seconds == 50
    assert spent.checkpoints == 3
    # bf16 weights and two fp32 moments of them.
    assert spent.checkpoint_bytes == 10 * (96 * 16 + 16 + 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16))
    assert spent.disk_bytes == 3 * spent.checkpoint_bytes
    assert spent.checkpoint_every_seconds == 20
    assert spent.seconds == pytest.approx(
        50 + 3 * spent.checkpoint_bytes / DISK_BYTES_A_SECOND + spent.evaluation_seconds)
    assert spent.share_done_by(spent.seconds / 2) == pytest.approx(0.5)
    assert spent.share_done_by(1e9) == 1
    by_time = asked.model_copy(update={"checkpoint": asked.checkpoint.model_copy(update={"every_minutes": 0.25})})
    often = estimate_run_time(planned_run(by_time, "l4", request=request), 0.5, items=100, held_out=0)
    # 15 seconds are 30 of these steps, which come before 40.
    assert (often.checkpoints, often.checkpoint_every_seconds) == (4, 15)
    short = asked.model_copy(update={"training": asked.training.model_copy(update={"steps": 40})})
    only = estimate_run_time(planned_run(short, "l4", request=request), 0.5, items=100, held_out=0)
    assert only.disk_bytes == only.checkpoint_bytes, "there is no second one next to it"
    unknown = estimate_run_time(planned_run(asked, "l4", request=request), 0.5, items=0, held_out=0)
    assert any("answers to the items" in what for what in unknown.not_counted)
    assert unknown.evaluation_seconds < spent.evaluation_seconds


def test_frozen_weights_get_no_gradient():
    full = request_of(recipe())
    thin = replace(full, method=recipe(method={"name": "lora", "rank": 4}).method)
    assert 0.6 < step_operations(thin, (1, 4, 64)) / step_operations(full, (1, 4, 64)) < 0.8


def test_runs_of_ones_own_take_the_place_of_the_assumption(tmp_path, monkeypatch):
    request = request_of(recipe())
    assert measured_throughput(tmp_path, targets()["t4"], "jax", 1e12) is None
    pace = Throughput(operations_a_second=1e12, source="measured")
    seconds, how = step_seconds(request, BatchShape(1, 4, 64), targets()["cpu"], MeshShape(1, 1), pace)
    assert seconds == pytest.approx(step_operations(request, (1, 4, 64)) / 1e12)
    assert "measured" in how


def test_the_median_of_finished_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "finished_runs", lambda directory, target, engine: iter(
        [FinishedRun(name=f"run-{n}", step_operations=1e12, operations_a_second=n * 1e12) for n in (1, 2, 9)]))
    found = measured_throughput(tmp_path, targets()["t4"], "jax", 1e12)
    assert found.operations_a_second == 2e12
    assert "3 finished runs of yours" in found.source
    assert "run_manifest.json" in found.source


def test_runs_with_steps_of_about_the_same_size_go_before_others(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "finished_runs", lambda directory, target, engine: iter(
        [FinishedRun(name=name, step_operations=size, operations_a_second=speed)
         for name, size, speed in (("tiny", 1e6, 1e9), ("tiny-2", 1e6, 1e9), ("large", 1e13, 1e12))]))
    found = measured_throughput(tmp_path, targets()["t4"], "jax", 5e13)
    assert (found.operations_a_second, "1 finished run of yours with jax" in found.source) == (1e12, True)
    between = measured_throughput(tmp_path, targets()["t4"], "jax", 1e9)
    assert between.operations_a_second == 1e9
    assert between.source.endswith("none with steps of about this size")


def test_runs_that_learned_from_rewards_count_where_there_are_no_others(tmp_path, monkeypatch):
    rewarded_run, other = (FinishedRun(name=name, step_operations=1e12, operations_a_second=speed, from_rewards=rewards)
                           for name, speed, rewards in (("rl", 1e9, True), ("sft", 1e10, False)))
    for runs, speed, said in (((rewarded_run,), 1e9, True), ((rewarded_run, other), 1e10, False)):
        monkeypatch.setattr(history, "finished_runs", lambda directory, target, engine, runs=runs: iter(runs))
        found = measured_throughput(tmp_path, targets()["cpu"], "jax", 1e12)
        assert found.operations_a_second == speed
        assert ("by their updates without drawing" in found.source) is said


def test_a_finished_run_says_how_fast_it_was(repository, tmp_path, monkeypatch):
    with ZipFile(repository / "examples" / "runs" / "quickstart" / "runs.zip") as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if "checkpoints" not in name])
    manifest = RunRecord.open(tmp_path / "runs" / "with-steps").manifest
    monkeypatch.setattr(history, "cpu_model", lambda: manifest.device.kind)
    found = {run.name: run for run in finished_runs(tmp_path / "runs", targets()["cpu"], "jax")}
    assert set(found) == {"with-steps", "answer-only"}
    asked = check_recipe(manifest.config, "its recipe")
    model = ModelShape(**json.loads((tmp_path / "runs" / "with-steps" / "config" / "model_shape.json").read_text()))
    request = replace(request_of(asked), shape=model)
    batch = (asked.batch.accumulation, asked.batch.micro_batch, asked.data.max_length)
    each = manifest.training_seconds / manifest.completed_steps
    assert step_operations(request, batch) / found["with-steps"].operations_a_second == pytest.approx(each)
    assert list(finished_runs(tmp_path / "runs", targets()["t4"], "jax")) == []
    assert list(finished_runs(tmp_path / "runs", targets()["cpu"], "torch")) == [], "another engine has another speed"
    (tmp_path / "runs" / "answer-only" / "config" / "model_shape.json").write_text('{"of another version": 1}')
    assert [run.name for run in finished_runs(tmp_path / "runs", targets()["cpu"], "jax")] == ["with-steps"]
    monkeypatch.setattr(history, "check_recipe", lambda *_: rewarded())
    assert list(finished_runs(tmp_path / "runs", targets()["cpu"], "jax")) == [], "how long they drew is not known"
    drawing = manifest.training_seconds / 4
    drawn = {"drawing_seconds": drawing}
    monkeypatch.setattr(RunRecord, "metrics", lambda run: [drawn, {}, drawn])
    run = next(finished_runs(tmp_path / "runs", targets()["cpu"], "jax"))
    assert run.from_rewards
    assert run.step_operations / run.operations_a_second == pytest.approx(each / 2)


def test_a_straight_line_through_two_depths():
    assert extrapolate((2, 0.891e9), (9, 1.306e9), 18) == pytest.approx(1.84e9, rel=0.001)
    assert shallow_depths(18, 0) == (5, 8)
    assert shallow_depths(26, 6) == (6, 12)
    assert shallow_depths(6, 0) == (5, 6)


def test_items_are_counted_where_they_are_known(tmp_path):
    assert count_items(load_recipe("gemma-2b-t4")) == 100
    assert count_items(load_recipe("gemma-2b-t4", ["evaluation={}"])) == 0
    assert count_items(load_recipe("gemma-2b-t4", ["evaluation.items=nowhere.jsonl"])) == 0
    (tmp_path / "mine.jsonl").write_text("{}\n{}\n\n")
    assert count_items(load_recipe("gemma-2b-t4", [f"evaluation.items={tmp_path / 'mine.jsonl'}"])) == 2
    assert shape().layers == 2


@pytest.mark.parametrize(("operations", "said"), [
    (0.0, "0 flop"), (999.0, "999 flop"), (3.21e14, "321 Tflop"), (1e15, "1 Pflop"), (5e20, "500 Eflop")])
def test_operations_are_said_in_the_unit_that_people_use(operations, said):
    assert flop_text(operations) == said
