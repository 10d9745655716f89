"""Planning on the page: figures that can be compared with each other."""

import re

import pytest

from workings.ui.memory_bars import stacked_bars


def test_bars_have_one_scale_and_a_far_limit_does_not_hide_them() -> None:
    _, _, near, far = figures = [stacked_bars([("a", [("parameters", 10)])], limit, longest)
                                          for limit, longest in ((10, 0), (10, 20), (500, 0), (501, 0))]
    width = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
             for figure in figures]
    assert (width[0], width[3]) == (pytest.approx(2 * width[1], rel=0.01), pytest.approx(50 * width[2], rel=0.01))
    assert ('class="limit"' in near, 'class="limit"' in far) == (True, False)
    assert "limit 501 B, 50 times as much" in far
