"""The page in a real browser: its style passes its own content security policy, in light and dark."""

from pathlib import Path

import pytest

from tests.browser import chromium
from tests.reports.making import two_runs
from workings.evaluation.comparison.compare import compare
from workings.reports.html import write_report


@pytest.mark.parametrize(("scheme", "color", "width"), [
    ("light", "rgb(251, 250, 248)", 1100), ("dark", "rgb(20, 21, 23)", 500)])
def test_the_page_is_styled_and_nothing_is_refused(tmp_path: Path, scheme: str, color: str, width: int) -> None:
    runs = two_runs(tmp_path)
    file = write_report(tmp_path / "page.html", runs, compare(*runs))
    said: list[str] = []
    with chromium() as new_page:
        page = new_page(color_scheme=scheme, viewport={"width": width, "height": 1400})
        page.on("console", lambda message: said.append(message.text))
        page.goto(file.as_uri())
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == color
    assert said == []
