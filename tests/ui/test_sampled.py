"""Units of samples in the list and on their own page."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.reports.parsed_page import Page
from tests.reports.rewarded import ATTACK, SHOWN
from tests.samples.making import draw
from tests.ui.making import client
from workings.record.layout import PREDICTIONS
from workings.samples.selection import Selection

ONE_EACH = Selection(most_per_prompt=1)
API, TAB = "/api/items/unit", "/run/unit"


def edit(unit: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change every line of a unit's predictions."""
    path = unit / PREDICTIONS
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_unit_is_a_row_of_the_list_and_has_its_own_tabs(page: TestClient, tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit", selection=ONE_EACH)
    row = next(row for row in page.get("/api/runs").json()["rows"] if row["name"] == "unit")
    assert (row["kind"], row["state"], row["accuracy"]) == ("samples", "complete", None), "drawn, not answered greedily"
    assert row["samples"] == {"kept": unit.counts.kept, "samples": 32, "prompts": 8}
    assert f"{unit.counts.kept} of 32 samples kept" in Page(page.get("/").text).text
    navigation = page.get(TAB).text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    assert re.findall(r"\?tab=([a-z]+)", navigation) == ["items", "checks"]


@pytest.mark.parametrize(("file", "contents"), [
    (PREDICTIONS, None), (PREDICTIONS, '{"id": 1}\n'), (PREDICTIONS, '{"id": "a"}\n')])
def test_samples_that_cannot_be_read_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                                    contents: str | None) -> None:
    unit = draw(tmp_path / "unit").path
    page = client(tmp_path, monkeypatch)
    (unit / file).unlink()
    if contents is not None:
        (unit / file).write_text(contents)
    assert page.get(API).status_code == 409
    shown = page.get(f"{TAB}?tab=items")
    assert shown.status_code == 200
    assert "These items are not shown" in shown.text


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    (unit / PREDICTIONS).rename(tmp_path / "private.jsonl")
    (unit / PREDICTIONS).symlink_to(tmp_path / "private.jsonl")
    assert client(tmp_path, monkeypatch).get(API).status_code == 409


def test_what_a_model_wrote_is_never_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    edit(unit, lambda line: line | {"id": f"{line['id']}\"'><img src=x>&/?#", "completion": ATTACK, "prompt": ATTACK,
                                    "gold": ATTACK})
    shown = Page(client(tmp_path, monkeypatch).get(TAB).text)
    assert "".join(shown.words).count(SHOWN) >= 6, "prompt, expected answer, samples"
    assert not shown.named("img")
    assert all((a.get("src") or "").startswith("/static/") for a in shown.named("script"))
