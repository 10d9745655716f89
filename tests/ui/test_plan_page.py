"""Planning on the page: what fits where at once, and figures that can be compared with each other."""

import re
from pathlib import Path

import pytest

from tests.ui.making import client
from workings.ui.memory_bars import part_number, stacked_bars
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


def test_a_part_has_one_colour_everywhere() -> None:
    few = stacked_bars([("a", [("activations", 3), ("parameters", 1)])], 10)
    more = stacked_bars([("b", [("parameters", 1), ("moments", 2), ("activations", 3)])], 10)
    assert all(f'class="part p{part_number("activations")}"' in figure for figure in (few, more))
    assert len({part_number(name) for name in ("parameters", "moments", "gradients", "activations")}) == 4


def test_figures_beside_each_other_have_one_scale() -> None:
    alone, paired = (stacked_bars([("a", [("parameters", 10)])], 10, longest) for longest in (0, 20))
    wide = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
            for figure in (alone, paired)]
    assert wide[0] == pytest.approx(2 * wide[1], rel=0.01)


def test_a_limit_that_is_far_away_does_not_hide_the_bars() -> None:
    near, far = (stacked_bars([("a", [("parameters", 10)])], limit) for limit in (500, 501))
    width = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
             for figure in (near, far)]
    assert width[1] == pytest.approx(50 * width[0], rel=0.01)
    assert ('class="limit"' in near, 'class="limit"' in far) == (True, False)
    assert "limit 501 B, 50 times as much" in far
