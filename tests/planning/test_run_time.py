"""Seconds of a run: by hand, of what devices send to each other, and measured on this machine; deadlines."""

from dataclasses import replace

import pytest

from tests.engines.tiny import request, tiny_shape
from tests.planning.planning_helpers import planned_run, recipe, request_of, shape
from workings.config.load import load_recipe
from workings.engines.base import MeshShape
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.inputs.resolve import find_shape
from workings.models.batch import BatchShape
from workings.planning import calibration
from workings.planning.calibration import calibrated_throughput, measure, measured_depths
from workings.planning.plan import make_plan
from workings.planning.run_time import (
    DISK_BYTES_A_SECOND,
    Throughput,
    communication_seconds,
    estimate_run_time,
    step_operations,
    step_seconds,
    traffic_of_an_update,
)
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


BF16 = request_of(recipe(precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}))
LAYERS = 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
"""Weights of the helper's two layers, norms among them."""
EIGHT = MeshShape(8, 1)


def traffic(request=BF16, rows=8, mesh=EIGHT, accumulation=1, slices=1):
    return traffic_of_an_update(request, BatchShape(accumulation, rows, 64), mesh, slices)


def test_weights_travel_twice_and_gradients_once_without_the_part_that_is_there_already():
    assert traffic() == (3 * 2 * LAYERS * 7 / 8, 0)
    assert traffic(accumulation=2).between_devices == 2 * traffic().between_devices


def test_weights_travel_in_the_smaller_of_two_formats_and_frozen_ones_without_gradients():
    mixed = request_of(recipe(precision={"parameters": "fp32", "compute": "bf16"}))
    assert traffic(mixed).between_devices == (2 * 2 + 4) * LAYERS * 7 / 8
    thin = {"name": "qlora", "rank": 4, "target_modules": ["q_proj"]}
    small, large = (traffic(request_of(recipe(method=thin, precision={"parameters": each, "compute": "bf16"})),
                            rows=2, mesh=MeshShape(2, 1)).between_devices for each in ("bf16", "fp32"))
    assert small <= large, "only norms and embeddings are stored in more bytes"
    thin = replace(BF16, method=recipe(method={"name": "lora", "rank": 4, "target_modules": ["q_proj"]}).method)
    assert traffic(thin, rows=2, mesh=MeshShape(2, 1)).between_devices == (2 * 2 * LAYERS + 4 * 2 * 4 * (16 + 16)) / 2


def test_layers_are_summed_over_tp_slices_share_what_they_receive_and_copies_exchange_gradients_only():
    assert traffic(rows=2, mesh=MeshShape(1, 2)).between_devices == (2 * 2 * 2) * 2 * 0.5 * 2 * 64 * 16 * 2
    assert traffic(slices=2).between_slices == 3 * 2 * LAYERS / 2 / 4
    # Two copies of four devices, on two slices or on one.
    copies = MeshShape(4, 1, replicate=2)
    apart = traffic(mesh=copies, slices=2)
    assert apart == (3 * 2 * LAYERS * 3 / 4, 2 * (LAYERS + 96 * 16 + 16) / 4)
    assert traffic(mesh=copies) == (sum(apart), 0)


def test_seconds_are_added_to_the_computing_unless_runs_say_the_pace():
    v5e, batch, mesh = targets()["v5e-8"], BatchShape(1, 8, 64), EIGHT
    sending = communication_seconds(BF16, batch, v5e, mesh)
    assert sending == pytest.approx(3 * 2 * LAYERS * 7 / 8 / 100e9)
    seconds, how = step_seconds(BF16, batch, v5e, mesh)
    assert seconds == pytest.approx(step_operations(BF16, (1, 8, 64)) / (197e12 * 0.4 * 8) + sending)
    assert "nothing of it hidden" in how
    pace = Throughput(operations_a_second=1e12, source="measured")
    assert step_seconds(BF16, batch, v5e, mesh, pace)[0] == step_operations(BF16, batch) / 8e12
    without = replace(v5e, interconnect_gb_s=0.0)
    assert "the catalog has no rate" in step_seconds(BF16, batch, without, mesh)[1]
    two = replace(v5e, slices=2, network_gb_s=3.0)
    assert communication_seconds(BF16, batch, two, mesh) > sending
    assert communication_seconds(BF16, batch, replace(two, network_gb_s=0.0), mesh) is None


DEEP = tiny_shape(layers=12)


def test_depths_are_whole_periods_of_the_layers_pattern() -> None:
    assert measured_depths(DEEP) == (1, 9)
    assert measured_depths(replace(tiny_shape("gemma3", layers=26), sliding_pattern=6)) == (6, 18)
    assert measured_depths(tiny_shape(layers=3)) == (3,)


def test_the_engines_own_step_is_measured() -> None:
    found = measure({"request": request(DEEP).to_json(), "engine": "torch", "rows": 2, "positions": 24,
                     "supervised": 0.5})
    assert sorted(found) == [1, 9]
    assert all(seconds > 0 for seconds in found.values())


def test_the_speed_is_that_of_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two micro-batches of 1.5 s, by the line through 1 and 9 layers."""
    monkeypatch.setattr(calibration, "ask_child", lambda *asked: ({"1": 0.4, "9": 1.2}, ""))
    batch = BatchShape(2, 4, 24)
    speed = calibrated_throughput(request(DEEP), "torch", batch, 0.5)
    assert step_operations(request(DEEP), batch) / speed.operations_a_second == pytest.approx(3.0)
    assert "1 and 9 of 12 layers" in speed.source
