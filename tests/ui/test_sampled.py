"""Units of samples: each sample with what became of it, filtered by it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.reports.parsed_page import Page
from tests.reports.rewarded import ATTACK, SHOWN
from tests.samples.making import draw, kinds
from tests.ui.making import client
from workings.record.layout import PREDICTIONS, SELECTION
from workings.samples.selection import Selection

ONE_EACH = Selection(most_per_prompt=1)
API, TAB = "/api/items/unit", "/run/unit"


def fates(item: str, count: int) -> list[str]:
    """What becomes of an item's samples by `ONE_EACH`, from what the drawing model of the tests is known to write."""
    found: list[str] = []
    drawn = kinds(item, count)
    for number, kind in enumerate(drawn):
        before = [each for each in drawn[:number] if each in (0, 1)]
        if kind > 1:
            found.append("wrong" if kind == 2 else "another form")
        else:
            found.append("kept" if not before else "same text" if kind == before[0] else "enough of its prompt")
    return found


def edit(unit: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change every line of a unit's predictions."""
    path = unit / PREDICTIONS
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_each_sample_says_what_became_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit", selection=ONE_EACH)
    page = client(tmp_path, monkeypatch)
    found = page.get(API).json()
    assert [(row["id"], row["sample"], row["fate"]) for row in found["rows"]] == [
        (f"i{n}", number, fate) for n in range(8) for number, fate in enumerate(fates(f"i{n}", 4))]
    assert found["fates"] == {"kept": unit.counts.kept, **unit.counts.left_out}
    for fate, count in found["fates"].items():
        only = page.get(API, params={"fate": fate}).json()
        assert (only["found"], {row["fate"] for row in only["rows"]}) == (count, {fate})
    shown = Page(page.get(TAB).text)
    assert shown.open == []
    for text in ("Completions sampled from adder to learn from", "left out: wrong", "32 of 32", "What is 7+7?",
                 "selection.most_per_prompt 1"):
        assert text in shown.text, text
    ids = [a["id"] for _, a in shown.tags if "id" in a]
    assert len(ids) == len(set(ids))
    edit(unit.path, lambda line: line | {"completion": "x"})
    assert page.get(API).json()["fates"] == {"another form": 32}, "the file changed"


def test_a_unit_is_a_row_of_the_list_and_has_its_own_tabs(page: TestClient, tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit", selection=ONE_EACH)
    row = next(row for row in page.get("/api/runs").json()["rows"] if row["name"] == "unit")
    assert (row["kind"], row["state"], row["accuracy"]) == ("samples", "complete", None), "drawn, not answered greedily"
    assert row["samples"] == {"kept": unit.counts.kept, "samples": 32, "prompts": 8}
    assert f"{unit.counts.kept} of 32 samples kept" in Page(page.get("/").text).text
    navigation = page.get(TAB).text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    assert re.findall(r"\?tab=([a-z]+)", navigation) == ["items", "checks", "files"]


@pytest.mark.parametrize(("file", "contents"), [
    (PREDICTIONS, None), (PREDICTIONS, '{"id": 1}\n'), (PREDICTIONS, '{"id": "a"}\n'),
    (SELECTION, '{"selection": {"keep": "nothing"}}')])
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
    assert page.get(f"{TAB}?tab=files").status_code == 200


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
