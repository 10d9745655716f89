"""Units of samples: every prompt's samples side by side, what was kept and why, and the pairs that were made."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import items
from tests.record import synthetic
from tests.reports.parsed_page import Page
from tests.reports.rewarded import ATTACK, SHOWN
from tests.samples.making import draw, kinds
from tests.ui.making import client, two_runs
from workings.record.layout import PREDICTIONS, SELECTION
from workings.record.seal import root_digest
from workings.samples.pairs import PairRule
from workings.samples.selection import Selection
from workings.ui import sample_reader
from workings.ui.sample_reader import SampleReader

ONE_EACH = Selection(most_per_prompt=1)
API, TAB = "/api/sampled/unit", "/run/unit"


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


def test_samples_stand_side_by_side_with_what_became_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit", selection=ONE_EACH)
    found = client(tmp_path, monkeypatch).get(API).json()
    assert {row["id"]: [one["fate"] for one in row["samples"]] for row in found["rows"]} == {
        f"i{n}": fates(f"i{n}", 4) for n in range(8)}
    assert found["agrees"]
    assert found["counts"] == unit.counts.to_json()
    assert found["rules"] == ["right answers", "no text of a prompt twice",
                              "at most 1 of a prompt, the first drawn first"]
    first, lines = found["rows"][0], [json.loads(line) for line in (unit.path / PREDICTIONS).read_text().splitlines()]
    assert (first["prompt"], first["expected"]) == ("What is 0+7?", "7")
    assert [(one["text"], one["score"], one["seed"], one["tokens"], one["end"]) for one in first["samples"]] == [
        (line["completion"], line["score"], line["seed"], line["completion_tokens"], "stop") for line in lines[:4]]
    shown = Page(client(tmp_path, monkeypatch).get(TAB).text)
    assert shown.open == []
    for text in ("4 samples of each prompt from adder at temperature 1, seed 0", "left out: wrong", "8 of 8 prompts",
                 f"seed {lines[0]['seed']}", "ended itself", "What is 7+7?"):
        assert text in shown.text, text
    ids = [a["id"] for _, a in shown.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_a_unit_is_a_row_of_the_list_and_has_its_own_tabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path)
    unit = draw(tmp_path / "unit", selection=ONE_EACH)
    page = client(tmp_path, monkeypatch)
    row = next(row for row in page.get("/api/runs").json()["rows"] if row["name"] == "unit")
    assert (row["kind"], row["state"], row["accuracy"]) == ("samples", "complete", None), "drawn, not answered greedily"
    assert row["samples"] == {"kept": unit.counts.kept, "samples": 32, "prompts": 8}
    assert f"{unit.counts.kept} of 32 samples kept" in Page(page.get("/").text).text
    navigation = page.get(TAB).text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    assert re.findall(r"\?tab=([a-z]+)", navigation) == ["sampled", "scorecard", "checks", "files"]
    assert "?tab=sampled" not in page.get("/run/runs/steps").text


def test_prompts_are_filtered_by_how_often_they_were_solved_and_why_samples_were_left_out(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "unit", asked=items(20), selection=ONE_EACH)
    page = client(tmp_path, monkeypatch)

    def ids(query: str) -> list[str]:
        return [row["id"] for row in page.get(f"{API}?{query}").json()["rows"]]

    # Of the four kinds only the third is wrong.
    right = {f"i{n}": sum(kind != 2 for kind in kinds(f"i{n}", 4)) for n in range(20)}
    assert ids("solved=always") == [name for name, count in right.items() if count == 4]
    assert ids("solved=sometimes") == [name for name, count in right.items() if 0 < count < 4]
    assert ids("solved=never") == [name for name, count in right.items() if not count]
    for fate in ("kept", "wrong", "same text"):
        assert ids(f"fate={fate}") == [name for name in right if fate in fates(name, 4)] != []
    assert ids("solved=always&fate=same text") == [
        name for name, count in right.items() if count == 4 and "same text" in fates(name, 4)]
    assert ids("look=What is 13%2B") == ["i13"]
    assert ids("look=ZZZ") == []
    assert "No prompt matches" in page.get(f"{TAB}?look=ZZZ").text
    assert page.get(f"{API}?solved=seldom").status_code == 422


def test_chosen_stands_beside_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit", pairs=PairRule(rule="right-wrong", most_per_prompt=2))
    page = client(tmp_path, monkeypatch)
    found = page.get(f"{API}?paired=true").json()
    assert (found["pairs"], found["pair_rule"]) == (
        len(unit.pairs), "the first right sample against the first that is not, at most 2 of a prompt")
    assert [(pair["chosen"]["text"], pair["rejected"]["text"]) for row in found["rows"] for pair in row["pairs"]] == [
        (pair.chosen, pair.rejected) for pair in unit.pairs] != []
    shown = Page(page.get(f"{TAB}?paired=true").text)
    first = unit.pairs[0]
    assert f"Chosen, sample {first.metadata['chosen_sample']}: right" in shown.text
    assert f"Rejected, sample {first.metadata['rejected_sample']}: wrong" in shown.text
    assert len(shown.named("article")) == len({pair.prompt for pair in unit.pairs})


def test_texts_are_read_a_page_at_a_time_and_fates_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit", asked=items(100), selection=ONE_EACH).path
    read: list[str] = []
    whole: list[Path] = []
    rows, outline = SampleReader.rows, sample_reader.sample_outline
    monkeypatch.setattr(SampleReader, "rows", lambda self, unit, prompt: (
        read.append(prompt.id), rows(self, unit, prompt))[1])
    monkeypatch.setattr(sample_reader, "sample_outline", lambda unit: (whole.append(unit), outline(unit))[1])
    page = client(tmp_path, monkeypatch)
    found = [page.get(f"{API}?part={part}").json() for part in (1, 5)]
    assert [(len(each["rows"]), each["found"], each["pages"]) for each in found] == [(24, 100, 5), (4, 100, 5)]
    assert read == [f"i{n}" for n in (*range(24), *range(96, 100))]
    assert page.get(f"{API}?part=6").json()["expected"] == "a page from 1 to 5"
    assert len(whole) == 1
    edit(unit, lambda line: line)
    page.get(API)
    assert len(whole) == 2, "the file changed"


def test_a_prompt_alone_has_its_texts_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    edit(unit, lambda line: line | {"completion": "x" * 1_600})
    page = client(tmp_path, monkeypatch)
    first = page.get(API).json()["rows"][0]["samples"][0]
    assert (len(first["text"]), first["more"]) == (1_500, 100)
    assert "100 further characters" in page.get(TAB).text
    alone = page.get(f"{API}?question=i3").json()
    assert (alone["found"], [row["id"] for row in alone["rows"]]) == (1, ["i3"])
    assert [(len(one["text"]), one["more"]) for one in alone["rows"][0]["samples"]] == [(1_600, 0)] * 4
    assert page.get(f"{API}?question=i99").status_code == 404
    assert "of these samples" in Page(page.get(f"{TAB}?question=i99").text).text


def test_a_prompt_with_many_samples_is_paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "unit", asked=items(1), samples=200, batch_size=200)
    page = client(tmp_path, monkeypatch)
    assert [(len(row["samples"]), row["further"]) for row in page.get(API).json()["rows"]] == [(96, 104)]
    assert "104 further samples" in page.get(TAB).text
    parts = [page.get(f"{API}?question=i0&part={part}").json() for part in (1, 2, 3)]
    assert [one["number"] for part in parts for one in part["rows"][0]["samples"]] == list(range(200))
    assert {part["pages"] for part in parts} == {3}


def test_the_run_that_drew_is_found_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = synthetic.sealed_run(tmp_path / "runs" / "adder")
    unit = draw(tmp_path / "unit").path
    page = client(tmp_path, monkeypatch)
    assert page.get(API).json()["drawn_by"] == "", "of that name, and not of that digest"
    config = json.loads((unit / "eval_config.json").read_text())
    (unit / "eval_config.json").write_text(json.dumps(config | {"made_from": root_digest(run)}))
    assert client(tmp_path, monkeypatch).get(API).json()["drawn_by"] == "runs/adder"


def test_counts_that_do_not_come_of_the_predictions_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    record = json.loads((unit / SELECTION).read_text())
    assert "other counts" not in client(tmp_path, monkeypatch).get(TAB).text
    (unit / SELECTION).write_text(json.dumps(record | {"counts": record["counts"] | {"kept": 99}}))
    assert "The record names other counts" in client(tmp_path, monkeypatch).get(TAB).text


@pytest.mark.parametrize("contents", [None, "{\n", '{"id": 1}\n', '{"id": "a"}\n'])
def test_samples_that_cannot_be_read_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    contents: str | None) -> None:
    unit = draw(tmp_path / "unit").path
    page = client(tmp_path, monkeypatch)
    (unit / PREDICTIONS).unlink()
    if contents is not None:
        (unit / PREDICTIONS).write_text(contents)
    assert page.get(API).status_code == 409
    shown = page.get(TAB)
    assert shown.status_code == 200
    assert "These samples are not shown" in shown.text
    assert page.get(f"{TAB}?tab=files").status_code == 200


def test_rules_that_nobody_knows_are_a_sentence_and_hide_no_other_unit(tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path)
    unit = draw(tmp_path / "unit").path
    page = client(tmp_path, monkeypatch)
    record = json.loads((unit / SELECTION).read_text())
    (unit / SELECTION).write_text(json.dumps(record | {"selection": {"keep": "nothing"}}))
    assert "These samples are not shown: these samples cannot be read: keep: nothing" in page.get(TAB).text
    (unit / SELECTION).write_text("[1]")
    rows = {row["name"]: row["state"] for row in page.get("/api/runs").json()["rows"]}
    assert rows == {"runs/plain": "complete", "runs/steps": "complete", "unit": "unreadable"}


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    (unit / PREDICTIONS).rename(tmp_path / "private.jsonl")
    (unit / PREDICTIONS).symlink_to(tmp_path / "private.jsonl")
    assert client(tmp_path, monkeypatch).get(API).status_code == 409


def test_what_a_model_wrote_is_never_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = draw(tmp_path / "unit").path
    name = "\"'><img src=x>&/?#"
    edit(unit, lambda line: line | {"id": f"{line['id']}{name}", "completion": ATTACK, "prompt": ATTACK,
                                    "gold": ATTACK})
    page = client(tmp_path, monkeypatch)
    shown = Page(page.get(TAB).text)
    links = [a["href"] for a in shown.named("a") if "question=" in (a["href"] or "")]
    alone = Page(page.get(f"{TAB}{links[0]}").text)
    assert f"i0{name}" in "".join(alone.words), "its link leads to it"
    for each in (shown, alone):
        assert "".join(each.words).count(SHOWN) >= 6, "prompt, expected answer, samples"
        assert not each.named("img")
        assert all((a.get("src") or "").startswith("/static/") for a in each.named("script"))
