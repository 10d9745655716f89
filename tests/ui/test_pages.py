"""Pages and their JSON twins over runs: complete, linked, and never markup from a run."""

import json
import re
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.evaluation.making import records, write_lines
from tests.record import synthetic
from tests.reports.parsed_page import Page
from tests.samples.making import draw
from tests.ui.making import client, two_runs, unsealed
from workings.record.layout import METRICS, PREDICTIONS
from workings.record.lock import DirectoryLock
from workings.record.reader import RunRecord
from workings.samples.selection import Selection
from workings.ui.number_format import facts
from workings.ui.site import Site
from workings.ui.tabs import TABS, OpenedRun

PAIR = "run=runs/plain&run=runs/steps"


def test_the_list_says_what_the_records_say(page: TestClient, tmp_path: Path) -> None:
    rows = {row["name"]: row for row in page.get("/api/runs").json()["rows"]}
    assert set(rows) == {"runs/plain", "runs/steps"}
    assert rows["runs/plain"]["accuracy"]["mean"] == 0.5
    assert rows["runs/plain"]["state"] == "complete"
    assert rows["runs/plain"]["verified"] is None
    manifest = RunRecord.open(tmp_path / "runs/plain").manifest
    assert rows["runs/plain"]["loss"] == manifest.final_loss
    assert rows["runs/plain"]["steps"] == manifest.completed_steps
    text = Page(page.get("/").text).text
    assert "50.0 %" in text
    assert "2 of 2 runs" in text


def test_search_filter_and_order_are_in_the_address(page: TestClient) -> None:
    found = [[row["name"] for row in page.get(f"/api/runs?{query}").json()["rows"]] for query in (
        "sort=accuracy&order=down", "sort=accuracy&order=up", "q=steps", "state=failed", "q=steps plain")]
    assert found == [["runs/steps", "runs/plain"], ["runs/plain", "runs/steps"], ["runs/steps"], [], []]
    assert "No run matches" in page.get("/?q=nothing-like-it").text


def test_an_empty_folder_shows_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(client(tmp_path, monkeypatch).get("/").text)
    for text in ("Start here", f"workings quickstart --out {tmp_path.resolve()}/quickstart",
                 f"workings train {tmp_path.resolve()}/my-recipe.yaml", "Run the quickstart"):
        assert text in page.text


@pytest.mark.parametrize("started_in", ["the folder", "elsewhere"])
def test_commands_on_the_page_can_be_typed_where_it_was_started(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started_in: str) -> None:
    two_runs(tmp_path)
    page, runs = client(tmp_path, monkeypatch), tmp_path.resolve() / "runs"
    if started_in == "the folder":
        monkeypatch.chdir(tmp_path)
        runs = Path("runs")
    for address, words in (("/run/runs/steps?tab=checks", f"verify {runs}/steps"),
                           ("/run/runs/steps?tab=checks", f"verify {runs}/steps --level 3"),
                           ("/run/runs/steps?tab=scorecard", f"eval {runs}/steps --items eval --out {runs}/steps/eval"),
                           ("/compare?run=runs/steps&run=runs/plain", f"compare {runs}/steps {runs}/plain")):
        assert f"workings {words}" in Page(page.get(address).text).text


def test_every_tab_of_a_run_nests_and_has_its_words(page: TestClient) -> None:
    for tab, words in (("overview", "Wrong ones first"), ("curves", "Drag across a curve"),
                       ("device", "What fills the device"), ("scorecard", "95 % interval"), ("items", "60 of 60"),
                       ("recipe", "Recipe as written"), ("checks", "Not verified yet"), ("log", "Output")):
        shown = Page(page.get(f"/run/runs/steps?tab={tab}").text)
        assert words in shown.text
        assert shown.named("h1")
        ids = [a["id"] for _, a in shown.tags if "id" in a]
        assert len(ids) == len(set(ids)), tab


def test_a_tab_with_nothing_to_show_is_not_there(page: TestClient, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "runs/steps/eval/items", tmp_path / "alone")
    shutil.copytree(tmp_path / "runs/steps", tmp_path / "runs/bare", ignore=shutil.ignore_patterns("eval"))
    unsealed(tmp_path / "runs/bare", tmp_path / "runs/bare.partial")
    for name, shown in (
            ("runs/steps", ["overview", "curves", "device", "scorecard", "items", "ask", "recipe", "checks", "log"]),
            ("runs/bare", ["overview", "curves", "device", "scorecard", "ask", "recipe", "checks", "log"]),
            ("runs/bare.partial", ["overview", "curves", "device", "recipe", "checks", "log"]),
            ("alone", ["scorecard", "items", "checks"])):
        text = page.get(f"/run/{name}?tab=nothing").text
        navigation = text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
        assert re.findall(r'href="[^"]+\?tab=([a-z]+)"', navigation) == shown == [key for key in TABS if key in shown]
        assert f'?tab={shown[0]}" aria-current="page"' in navigation


def test_samples_are_a_row_of_the_list_and_have_their_own_tabs(page: TestClient, tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit", selection=Selection(most_per_prompt=1))
    row = next(row for row in page.get("/api/runs").json()["rows"] if row["name"] == "unit")
    assert (row["kind"], row["state"], row["accuracy"]) == ("samples", "complete", None), "drawn, not answered greedily"
    assert row["samples"] == {"kept": unit.counts.kept, "samples": 32, "prompts": 8}
    assert f"{unit.counts.kept} of 32 samples kept" in Page(page.get("/").text).text
    navigation = page.get("/run/unit").text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    assert re.findall(r"\?tab=([a-z]+)", navigation) == ["items", "checks"]
    (unit.path / PREDICTIONS).unlink()
    assert "These items are not shown" in page.get("/run/unit?tab=items").text


def test_items_are_searched_and_paged(page: TestClient) -> None:
    wrong = page.get("/api/items/runs/plain?result=wrong").json()
    assert (wrong["found"], wrong["total"], wrong["pages"]) == (30, 60, 1)
    assert not any(row["right"] for row in wrong["rows"])
    everything = page.get("/api/items/runs/plain?page=2").json()
    assert (everything["pages"], len(everything["rows"])) == (2, 10)
    name = everything["rows"][0]["id"]
    assert name in [row["id"] for row in page.get(f"/api/items/runs/plain?q={name}").json()["rows"]]
    assert page.get("/api/items/runs/plain?page=9").status_code == 404
    assert page.get("/api/items/runs/plain?unit=other").json()["expected"] == "one of: items"


def test_a_comparison_agrees_with_the_verb(page: TestClient) -> None:
    answer = page.get(f"/api/compare?{PAIR}").json()
    assert answer["comparison"]["verdict"] == "better"
    assert answer["comparison"]["delta"] == pytest.approx(0.4)
    assert answer["counts"] == {"newly_right": 24, "newly_wrong": 0, "both_wrong": 6, "both_right": 30}
    shown = Page(page.get(f"/compare?{PAIR}&show=both_wrong").text)
    assert "newly correct 24" in shown.text
    assert [each for each in ("steps is better", "95 % interval", "difference")
            if each not in shown.text] == []
    assert page.get("/compare?run=runs/plain").status_code == 404
    assert page.get("/compare?run=runs/plain&run=runs/plain").status_code == 404


def test_curves_keep_ends_and_spikes(page: TestClient, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (tmp_path / "runs/steps/train/metrics.jsonl").read_text().splitlines()]
    found = page.get("/api/curves/runs/steps?x=tokens").json()
    loss = next(series for series in found["series"] if series["key"] == "loss")
    assert loss["y"] == [line["loss"] for line in lines]
    assert loss["x"][-1] == sum(line["tokens"] for line in lines)
    part = page.get("/api/curves/runs/steps?low=2&high=2").json()
    assert next(series for series in part["series"] if series["key"] == "loss")["x"] == [2.0]
    means = page.get("/api/curves/runs/steps?mean=3").json()["series"]
    mean = next(series for series in means if series["key"] == "loss")
    assert (loss["smoothed"], mean["smoothing_steps"]) == ([], 3)
    assert mean["smoothed"][1] == pytest.approx(sum(mean["y"][:3]) / 3)


def test_a_run_that_is_being_written_is_live(page: TestClient, tmp_path: Path) -> None:
    live = unsealed(tmp_path / "runs/steps", tmp_path / "runs/live.partial")
    shutil.copytree(tmp_path / "runs/steps", tmp_path / "runs/live.interrupted-1")
    row = page.get("/api/run/runs/live.partial").json()["row"]
    assert row["state"] == "stopped"
    last, before = json.loads((live / METRICS).read_text().splitlines()[-1]), row["steps"]
    lock = DirectoryLock(live)
    try:
        with (live / METRICS).open("a") as file:
            file.write(json.dumps(last | {"step": before + 1, "loss": 0.125}) + "\n" + '{"step": ')  # and a torn line
        row, again = (page.get(f"/api/run/runs/{name}").json()["row"] for name in ("live.partial", "live"))
        asked_again = page.get("/api/live/runs/live.partial").json()
        series = page.get("/api/curves/runs/live.partial").json()["series"]
        rows = page.get("/api/runs").json()["rows"]
        shown = Page(page.get("/").text).text
    finally:
        lock.release()
    assert asked_again == again == row
    assert (row["name"], row["state"], row["steps"], row["loss"]) == ("runs/live", "running", before + 1, 0.125)
    loss = next(each for each in series if each["key"] == "loss")
    assert (loss["x"][-1], loss["y"][-1]) == (before + 1, 0.125)
    # It is the first row, under its later name, and its earlier attempt is hidden.
    assert (rows[0]["name"], rows[0]["state"]) == ("runs/live", "running")
    assert rows[0]["started_at"] == json.loads((live / "train/events.jsonl").read_text().splitlines()[0])["time"]
    assert {row["name"]: row["earlier_of"] for row in rows}["runs/live.interrupted-1"] == "runs/live"
    assert "live.interrupted-1" not in shown
    assert "including 1 earlier attempt of resumed runs: show it" in shown
    assert "live.interrupted-1" in Page(page.get("/?earlier=true").text).text
    shutil.copy(tmp_path / "runs/steps/run_manifest.json", live)
    live.rename(live.with_name("live"))  # as sealing does: the address of yesterday is good
    assert page.get("/run/runs/live.partial").status_code == 200


def test_a_page_is_read_again_when_its_run_is_sealed_meanwhile(page: TestClient, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, partial = tmp_path / "runs/steps", tmp_path / "runs/steps.partial"
    sealed.rename(partial)
    opens = OpenedRun.open

    def open_and_seal(site: Site, name: str) -> OpenedRun:
        opened = opens(site, name)
        if partial.exists():
            partial.rename(sealed)
        return opened

    monkeypatch.setattr(OpenedRun, "open", open_and_seal)
    assert page.get("/run/runs/steps?tab=overview").status_code == 200


def test_a_comparison_is_made_again_when_a_file_changes(page: TestClient, tmp_path: Path) -> None:
    assert page.get(f"/api/compare?{PAIR}").json()["comparison"]["verdict"] == "better"
    predictions = tmp_path / "runs" / "steps" / "eval" / "items" / "predictions.jsonl"
    predictions.write_bytes(predictions.read_bytes() + b"\n")
    assert "is not the file that was sealed" in page.get(f"/api/compare?{PAIR}").json()["error"]


def test_text_of_a_run_is_never_markup(page: TestClient, tmp_path: Path) -> None:
    attack = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}"
    for unit in (tmp_path / "runs/steps/eval/items", draw(tmp_path / "drawn").path):
        changed = {"completion": attack, "prompt": attack, "section": attack, "rule": attack, "gold": attack}
        write_lines(unit / PREDICTIONS, [line | changed for line in records(unit)])
    manifest = tmp_path / "runs" / "steps" / "run_manifest.json"
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(values | {"model_id": attack}))
    (tmp_path / "runs" / "steps" / "config" / "recipe.yaml").write_text(attack)
    for route in ("/", "/run/runs/steps?tab=items", "/run/drawn", "/run/runs/steps?tab=recipe",
                  "/run/runs/steps?tab=log"):
        shown = Page(page.get(route).text)
        assert attack in " ".join(shown.words)
        assert not shown.named("img")
        assert all((a.get("src") or "").startswith("/static/") for a in shown.named("script"))


def test_a_failed_run_says_why_before_anything_else(page: TestClient, tmp_path: Path) -> None:
    manifest, why = tmp_path / "runs" / "steps" / "run_manifest.json", "step 8: loss nan <b>"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"status": "failed", "status_reason": why}))
    assert why in Page(page.get("/run/runs/steps").text).text
    assert {row["name"]: row["reason"] for row in page.get("/api/runs").json()["rows"]} == {
        "runs/steps": why, "runs/plain": ""}


@pytest.mark.parametrize(("name", "contents"), [
    ("run_manifest.json", b"{"), ("run_manifest.json", b"[1]"), ("run_manifest.json", b"[" * 100_000),
    ("run_manifest.json", b'{"name": 1}'), ("SEAL.json", b"\xff\xfe"),
    ("eval/items/eval_summary.json", b'{"scorecard": 3}'), ("eval/items/predictions.jsonl", b'{"id": 1}\n'),
    ("train/metrics.jsonl", b'{"step": "x"}\n\xff\n'), ("plan/plan.json", b'{"breakdown": 7}')])
def test_a_damaged_run_is_a_row_and_hides_no_other(page: TestClient, tmp_path: Path, name: str,
                                                   contents: bytes) -> None:
    (tmp_path / "runs" / "steps" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "runs" / "steps" / name).write_bytes(contents)
    rows = {row["name"]: row for row in page.get("/api/runs").json()["rows"]}
    assert rows["runs/plain"]["state"] == "complete"
    assert "runs/steps" in rows
    for tab in ("curves", "device", "recipe", "items", "checks"):
        answer = page.get(f"/run/runs/steps?tab={tab}")
        assert answer.status_code in (200, 404, 409), tab
        assert "Traceback" not in answer.text
    assert page.get("/api/curves/runs/steps").status_code in (200, 409)


def test_no_path_leads_out_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    two_runs(folder)
    synthetic.sealed_run(tmp_path / "outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    page = client(folder, monkeypatch)
    for name in ("../outside", "runs/../../outside", "%2e%2e/outside", "/etc", "runs/plain%00", "nothing", "link"):
        for route in ("run", "api/run", "api/curves", "api/items", "export/run"):
            assert page.get(f"/{route}/{name}").status_code == 404, (route, name)
    assert "link" not in [row["name"] for row in page.get("/api/runs").json()["rows"]]


def test_exports_are_one_file_without_script(page: TestClient) -> None:
    for route, words in (("/export/run/runs/steps", "steps"), (f"/export/compare?{PAIR}", "steps is better")):
        answer = page.get(route)
        assert "attachment" in answer.headers["content-disposition"]
        shown = Page(answer.text)
        assert words in shown.text
        assert not {tag for tag, _ in shown.tags} & {"script", "link", "img", "iframe"}


def test_every_json_twin_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = client(tmp_path, monkeypatch).get("/api/openapi.json").json()["paths"]
    for path in ("runs", "run/{name}", "curves/{name}", "rollouts/{name}", "items/{name}", "compare",
                 "jobs", "jobs/{identity}", "quickstart", "train", "eval", "verify", "replay"):
        assert all(operation.get("description") for operation in described[f"/api/{path}"].values()), path


def test_an_address_without_a_needed_value_says_what_is_needed(page: TestClient) -> None:
    assert "select them in the list" in page.get("/compare").text
    assert page.get("/api/compare").json()["expected"] == "2 to 12 different runs"
    wrong = page.get("/api/items/runs/steps?page=x").json()
    assert wrong == {"error": "page: x", "expected": "page: a valid integer, unable to parse string as an integer"}


def test_recorded_facts_are_read_by_people() -> None:
    values = {"machine": {"memory_bytes": 3 * 2**30, "threads": {}, "cores": []}, "seen": {"absent": "not set"}}
    assert facts(values) == {"machine.memory_bytes": "3.0 GiB", "machine.cores": "none", "seen": "absent: not set"}
