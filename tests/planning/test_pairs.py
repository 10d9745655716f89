"""Plans of runs that learn from preference pairs: the reference's pass, its time, and whole pairs on every device."""

import json
from typing import Any

import pytest

from tests.planning.planning_helpers import planned_run, recipe
from workings.config.load import load_recipe
from workings.config.recipe import Recipe
from workings.hardware.catalog import find_target
from workings.planning import search
from workings.planning.planned_run import programs_of
from workings.planning.run_time import estimate_run_time
from workings.runs.plan import count_rows


def pairs(**changes: Any) -> Recipe:
    return recipe(**{"algorithm": {"name": "dpo"}, "batch": {"micro_batch": 4, "accumulation": 2}} | changes)


def test_the_reference_is_asked_in_batches_of_the_step() -> None:
    assert programs_of(pairs(), 2) == {"step": (2, 8, 64), "log_probs": (2, 8, 64)}
    assert "log_probs" not in programs_of(recipe(), 1)


def test_the_pass_takes_at_most_a_third_of_the_steps() -> None:
    asked = pairs(training={"steps": 30, "learning_rate": 1e-3})
    spent = estimate_run_time(planned_run(asked, "rtx5090"), 0.5, items=0)
    assert spent.reference_seconds == pytest.approx(30 * 0.5 / 3)
    without = spent.training_seconds + spent.checkpoints * spent.checkpoint_seconds
    assert spent.seconds == pytest.approx(without + 5.0)
    assert spent.to_json()["reference_seconds"] == pytest.approx(5.0)


def test_the_search_keeps_pairs_whole() -> None:
    target = find_target("v5e-8")
    assert search.halved_micro_batch(pairs(), target) == {"batch.micro_batch": 2, "batch.accumulation": 4}
    assert search.halved_micro_batch(pairs(batch={"micro_batch": 2}), target) == {}
    assert search.halved_micro_batch(recipe(batch={"micro_batch": 2}), target) == {
        "batch.micro_batch": 1, "batch.accumulation": 2}
    # Eight rows over eight devices would be half a pair on each: the global batch grows instead.
    one = pairs(batch={"micro_batch": 8}, mesh={"fsdp": 1})
    assert search.on_all_devices(one, target) == {"mesh.fsdp": "auto"}
    assert search.on_all_devices(pairs(batch={"micro_batch": 16}, mesh={"fsdp": 1}), target)["batch.micro_batch"] == 2


def test_pairs_are_counted_where_the_file_is_here(tmp_path: Any) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(pairs(data={"traces": "pairs.jsonl", "max_length": 64}).model_dump(
        mode="json", exclude_unset=True)))
    assert count_rows(load_recipe(str(path))) == 0
    (tmp_path / "pairs.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    assert count_rows(load_recipe(str(path))) == 4
    assert count_rows(load_recipe(str(path), ("algorithm={name: sft}",))) == 2
