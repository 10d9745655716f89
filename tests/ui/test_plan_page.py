"""Planning on the page: the figure of a plan."""

import re

from workings.ui.memory_bars import stacked_bars


def test_a_far_limit_does_not_hide_the_bars() -> None:
    near, far = (stacked_bars([("a", [("parameters", 10)])], limit) for limit in (500, 501))
    widths = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
              for figure in (near, far)]
    assert widths[1] > 40 * widths[0]
    assert ('class="limit"' in near, 'class="limit"' in far) == (True, False)
    assert "limit 501 B, 50 times as much" in far
