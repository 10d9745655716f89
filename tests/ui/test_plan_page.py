"""Planning on the page: what fits where, and the figure of a plan."""

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


def test_a_far_limit_does_not_hide_the_bars() -> None:
    near, far = (stacked_bars([("a", [("parameters", 10)])], limit) for limit in (500, 501))
    widths = [float(re.findall(r'<rect class="part p0" x="4.0" y="18" width="([0-9.]+)"', figure)[0])
              for figure in (near, far)]
    assert widths[1] > 40 * widths[0]
    assert ('class="limit"' in near, 'class="limit"' in far) == (True, False)
    assert "limit 501 B, 50 times as much" in far
