"""Scales, ticks, smoothing and thinning against values worked out by hand."""

import pytest

from workings.reports.charts import Scale, linear_ticks, smoothed, thinned, tick_label
from workings.reports.run_table import count


def test_scales_map_ends_and_middles() -> None:
    linear = Scale(0, 10, 100, 200)
    assert (linear(0), linear(5), linear(10)) == (100, 150, 200)
    assert Scale(3, 3, 0, 10)(3) == 5


def test_ticks_are_round_and_labels_plain() -> None:
    assert linear_ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert linear_ticks(1, 1500, 5) == [500, 1000, 1500]
    assert linear_ticks(-0.25, 0.3, 4) == [-0.2, 0, 0.2]
    assert linear_ticks(2, 2, 4) == [2]
    assert tick_label(1500) == "1\u202f500"
    assert tick_label(0.02) == "0.02"
    assert count(1234567) == "1\u202f234\u202f567"


def test_smoothing_is_a_centered_mean() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, 6.0), (3.0, 3.0)]
    assert smoothed(points, 3) == [(0, 1.5), (1, 3), (2, pytest.approx(11 / 3)), (3, 4.5)]


def test_thinning_keeps_ends_and_spikes() -> None:
    points = [(float(k), 1.0) for k in range(10_000)]
    points[4321] = (4321.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= 402
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert (4321.0, 99.0) in kept
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)
