"""Seconds of a run, and deadlines."""

from dataclasses import replace

import pytest

from tests.planning.planning_helpers import planned_run, recipe, request_of, shape
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.inputs.resolve import find_shape
from workings.planning.plan import make_plan
from workings.planning.run_time import DISK_BYTES_A_SECOND, estimate_run_time, step_operations
from workings.runs.plan import count_items, parse_duration, with_deadline, with_time


def test_a_whole_run_by_hand():
    asked = recipe(training={"steps": 100, "learning_rate": 1e-3}, checkpoint={"every_steps": 40, "keep_last": 2},
                   evaluation={"items": "eval", "every_steps": 50, "samples": 1, "batch_size": 64, "base": False},
                   precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"})

    def spent(items: int = 100, **changes: dict):
        changed = asked.model_copy(update={
            name: getattr(asked, name).model_copy(update=keys) for name, keys in changes.items()})
        return estimate_run_time(planned_run(changed, "l4", request=request_of(asked)), 0.5, items=items)

    found = spent()
    assert (found.training_seconds, found.checkpoints, found.checkpoint_every_seconds) == (50, 3, 20)
    # bf16 weights and two fp32 moments of them.
    assert found.checkpoint_bytes == 10 * (96 * 16 + 16 + 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16))
    assert found.disk_bytes == 3 * found.checkpoint_bytes
    assert found.seconds == pytest.approx(
        50 + 3 * found.checkpoint_bytes / DISK_BYTES_A_SECOND + found.evaluation_seconds)
    # 15 seconds are 30 of these steps, which come before 40.
    often = spent(checkpoint={"every_minutes": 0.25})
    assert (often.checkpoints, often.checkpoint_every_seconds) == (4, 15)
    only = spent(training={"steps": 40})
    assert only.disk_bytes == only.checkpoint_bytes, "there is no second one next to it"
    unknown = spent(items=0)
    assert any("answers to the items" in what for what in unknown.not_counted)
    assert unknown.evaluation_seconds < found.evaluation_seconds


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


def test_a_missed_deadline_comes_with_the_steps_that_finish(no_compiler: None) -> None:
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
