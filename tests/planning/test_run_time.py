"""Seconds of a run, and deadlines."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.planning.planning_helpers import planned_run, recipe, request_of, shape
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.inputs.resolve import find_shape
from workings.planning.plan import make_plan
from workings.planning.run_time import DISK_BYTES_A_SECOND, estimate_run_time, step_operations
from workings.record.number_text import duration
from workings.runs.plan import count_items, parse_duration, with_deadline, with_time


def test_times_for_people():
    assert [duration(n) for n in (3.21, 600, 5400, 360000)] == ["3.21 s", "10 min", "1 h 30 min", "4.2 days"]


def test_a_whole_run_by_hand():
    asked = recipe(training={"steps": 100, "learning_rate": 1e-3}, checkpoint={"every_steps": 40, "keep_last": 2},
                   evaluation={"items": "eval", "every_steps": 50, "samples": 1, "batch_size": 64, "base": False},
                   precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"})
    request = request_of(asked)
    spent = estimate_run_time(planned_run(asked, "l4", request=request), 0.5, items=100)
    assert spent.training_seconds == 50
    assert spent.checkpoints == 3
    # bf16 weights and two fp32 moments of them.
    assert spent.checkpoint_bytes == 10 * (96 * 16 + 16 + 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16))
    assert spent.disk_bytes == 3 * spent.checkpoint_bytes
    assert spent.checkpoint_every_seconds == 20
    assert spent.seconds == pytest.approx(
        50 + 3 * spent.checkpoint_bytes / DISK_BYTES_A_SECOND + spent.evaluation_seconds)
    by_time = asked.model_copy(update={"checkpoint": asked.checkpoint.model_copy(update={"every_minutes": 0.25})})
    often = estimate_run_time(planned_run(by_time, "l4", request=request), 0.5, items=100)
    # 15 seconds are 30 of these steps, which come before 40.
    assert (often.checkpoints, often.checkpoint_every_seconds) == (4, 15)
    short = asked.model_copy(update={"training": asked.training.model_copy(update={"steps": 40})})
    only = estimate_run_time(planned_run(short, "l4", request=request), 0.5, items=100)
    assert only.disk_bytes == only.checkpoint_bytes, "there is no second one next to it"
    unknown = estimate_run_time(planned_run(asked, "l4", request=request), 0.5, items=0)
    assert any("answers to the items" in what for what in unknown.not_counted)
    assert unknown.evaluation_seconds < spent.evaluation_seconds


def test_frozen_weights_get_no_gradient():
    full = request_of(recipe())
    thin = replace(full, method=recipe(method={"name": "lora", "rank": 4}).method)
    assert 0.6 < step_operations(thin, (1, 4, 64)) / step_operations(full, (1, 4, 64)) < 0.8


def test_items_are_counted_where_they_are_known(tmp_path):
    assert count_items(load_recipe("gemma-2b-t4")) == 100
    assert count_items(load_recipe("gemma-2b-t4", ["evaluation={}"])) == 0
    assert count_items(load_recipe("gemma-2b-t4", ["evaluation.items=nowhere.jsonl"])) == 0
    (tmp_path / "mine.jsonl").write_text("{}\n{}\n\n")
    assert count_items(load_recipe("gemma-2b-t4", [f"evaluation.items={tmp_path / 'mine.jsonl'}"])) == 2
    assert shape().layers == 2


def test_a_missed_deadline_comes_with_the_steps_that_finish(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from workings.engines.jax import planning as jax_planning
    from workings.engines.jax.target import CompilerAbsent

    def absent(*_: object, **__: object) -> None:
        raise CompilerAbsent("no compiler", "a compiler", "install it")

    monkeypatch.setattr(jax_planning, "compile_for", absent)
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    loaded, target = load_recipe("gemma-2b-rtx5090"), targets()["rtx5090"]
    model = find_shape(loaded)
    plan = with_time(make_plan(loaded.recipe, model, target), loaded, model, target)
    assert plan.time is not None
    missed, met = (with_deadline(plan, share * plan.time.seconds).reasons[-1] for share in (0.5, 2))
    assert missed.startswith("does not finish in")
    assert missed.endswith(f"with training.steps={loaded.recipe.training.steps // 2} it finishes")
    assert met.startswith("finishes in")
    assert with_deadline(replace(plan, time=None), 60).reasons[-1].startswith("the time of the run is unknown")


def test_a_deadline_is_a_length_of_time() -> None:
    assert [parse_duration(text) for text in ("9h", "90m", "1h30m", "1.5h", "45s")] == [32400, 5400, 5400, 5400, 45]
    for wrong in ("9", "h", "0h", "9 hours", "-1h"):
        with pytest.raises(RequestError, match="is no length of time"):
            parse_duration(wrong)
