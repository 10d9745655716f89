"""Planning on the page: what fits where at once, and figures that can be compared with each other."""

import re
from pathlib import Path

import pytest

from tests.ui.making import client
from workings.ui.memory_bars import stacked_bars
from workings.ui.routes import plan


@pytest.mark.slow
def test_what_fits_is_a_table_whose_cells_lead_to_their_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "published", lambda: ["gemma-2b", "llama-3-8b"])  # of thirty
    page = client(tmp_path, monkeypatch)
    found = page.get("/api/fits?method=QLoRA&length=512").json()
    cell = next(each for each in found["models"]["gemma-2b"] if each["target"] == "t4")
    assert (cell["fits"], cell["source"]) == (True, "estimated")
    form = page.get(cell["plan"]).text
    assert "{source: scratch, shape: gemma-2b}" in form
    assert 'value="t4" checked' in form
    shown = page.get("/fits?method=QLoRA&length=512").text
    assert shown.count("<td>") == sum(map(len, found["models"].values())) + 1
    assert page.get("/fits?method=magic").status_code == 422


def test_bars_have_one_scale_and_a_far_limit_does_not_hide_them() -> None:
    _, _, near, far = figures = [stacked_bars([("a", [("parameters", 10)])], limit, longest)
                                          for limit, longest in ((10, 0), (10, 20), (500, 0), (501, 0))]
    width = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
             for figure in figures]
    assert (width[0], width[3]) == (pytest.approx(2 * width[1], rel=0.01), pytest.approx(50 * width[2], rel=0.01))
    assert ('class="limit"' in near, 'class="limit"' in far) == (True, False)
    assert "limit 501 B, 50 times as much" in far
