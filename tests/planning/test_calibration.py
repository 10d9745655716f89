"""The time of an update on this machine, from models of few layers."""

from dataclasses import replace

import pytest

from tests.engines.tiny import request, tiny_shape
from workings.models.batch import BatchShape
from workings.planning import calibration
from workings.planning.calibration import at_depth, calibrated_throughput, measure, measured_depths
from workings.planning.run_time import step_operations

DEEP = tiny_shape(layers=12)


def test_a_straight_line_leads_to_the_whole_model() -> None:
    assert at_depth({1: 2.0, 9: 6.0}, 30) == pytest.approx(16.5)
    assert at_depth({9: 6.0}, 9) == 6.0
    # Noise cannot make a deeper model faster.
    assert at_depth({1: 2.0, 9: 1.9}, 30) == 2.0


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
