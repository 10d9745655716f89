"""What a run drew and what it earned: the tab, its JSON twin, and the curves next to it."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.reports.parsed_page import Page
from tests.reports.rewarded import ATTACK, SHOWN, rewarded_run
from tests.ui.making import client, two_runs
from workings.scoring.items import Item
from workings.ui.curves import Columns, curves

pytestmark = pytest.mark.slow  # together they take seconds

TAB = "/run/run?tab=rollouts"
API = "/api/rollouts/run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that learned from rewards."""
    return rewarded_run(tmp_path / "run")


@pytest.fixture
def page(run: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The page over its folder."""
    return client(run.parent, monkeypatch)


def test_groups_are_shown_with_all_that_is_known(page: TestClient) -> None:
    found = page.get(f"{API}?step=2").json()
    assert (found["first"], found["before"], found["after"], found["last"], found["count"]) == (1, 1, 3, 3, 3)
    (hard, mixed, easy) = found["rollout"]["rows"]
    assert (mixed["id"], mixed["prompt"], mixed["expected"], mixed["epoch"]) == ("mixed", "What is 21+21?", "42", 1)
    assert (hard["equal"], mixed["equal"], mixed["learned"], mixed["mean"]) == (True, False, True, 0.375)
    first, second = mixed["completions"]
    assert (first["text"], first["reward"], first["advantage"]) == ("mixed 2 1", 0.875, 0.5)
    assert first["parts"] == [{"name": "answer", "value": 1, "weight": 1},
                              {"name": "length", "value": -0.25, "weight": 0.5}]
    assert (second["advantage"], bool(second["end"]), easy["completions"][1]["end"]) == (-0.5, True, "")
    shown = Page(page.get(f"{TAB}&step=2").text)
    for text in ("What is 21+21?", "expected 42", "mean reward 0.375", "mixed 2 1", "+0.5 advantage", "cut off",
                 "(answer 1, length -0.25 × 0.5)", "equal rewards: teaches nothing", "3 of 3 groups"):
        assert text in shown.text, text
    assert shown.open == []


def test_the_last_rollout_comes_first_and_orders_are_in_the_address(page: TestClient) -> None:
    assert page.get(API).json()["rollout"]["step"] == 3
    orders = {order: [row["id"] for row in page.get(f"{API}?order={order}").json()["rollout"]["rows"]]
              for order in ("drawn", "lowest", "highest")}
    assert orders == {"drawn": ["hard", "mixed", "easy"], "lowest": ["hard", "mixed", "easy"],
                      "highest": ["easy", "mixed", "hard"]}
    assert [row["id"] for row in page.get(f"{API}?find=21%2B21").json()["rollout"]["rows"]] == ["mixed"]
    assert "No group of this rollout matches" in page.get(f"{TAB}&find=nothing-like-it").text


@pytest.mark.slow
def test_a_large_rollout_is_shown_a_page_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Item(id=f"p{n:03}", prompt=f"What is {n}?", expected_answer=str(n)) for n in range(60)]
    rewarded_run(tmp_path / "run", ["x" * 20_100, *["y"] * 119], asked)
    page = client(tmp_path, monkeypatch)
    found = [page.get(f"{API}?sheet={sheet}").json()["rollout"] for sheet in (1, 2)]
    assert [(len(each["rows"]), each["pages"], each["total"]) for each in found] == [(48, 2, 60), (12, 2, 60)]
    assert len({row["id"] for each in found for row in each["rows"]}) == 60
    assert page.get(f"{API}?sheet=3").status_code == 404
    long = found[0]["rows"][0]["completions"][0]
    assert (len(long["text"]), long["more"]) == (20_000, 100)
    shown = page.get(TAB).text
    assert shown.count("<article") == 48
    assert "100 more characters" in shown


def test_an_update_in_the_middle_belongs_to_a_rollout(page: TestClient, run: Path) -> None:
    config = json.loads((run / "config/resolved.json").read_text())
    config["algorithm"]["updates"] = 2
    (run / "config/resolved.json").write_text(json.dumps(config))
    assert [page.get(f"{API}?step={step}").json()["rollout"]["step"] for step in (1, 2, 3)] == [1, 1, 3]
    assert page.get(f"{API}?step=0").json()["rollout"]["step"] == 3


@pytest.mark.parametrize(("name", "contents", "said"), [
    ("train/rollouts/step_000002.json", None, "there is no rollout of update 2 in this record"),
    ("train/rollouts/step_000002.json", "[" * 100_000, "step_000002.json cannot be read"),
    ("config/tokenizer/tokenizer.json", None, "cannot be read without the run's tokenizer"),
])
def test_a_damaged_rollout_is_a_sentence_and_hides_no_other(page: TestClient, run: Path, name: str,
                                                            contents: str | None, said: str) -> None:
    (run / name).unlink()
    if contents is not None:
        (run / name).write_text(contents)
    answer = page.get(f"{API}?step=2")
    assert answer.status_code == 409
    assert said in answer.json()["error"]
    shown = page.get(f"{TAB}&step=2")
    assert shown.status_code == 200
    assert said in Page(shown.text).text
    assert "next: update 3" in shown.text
    if name.startswith("train"):
        assert "mixed 3 1" in page.get(f"{TAB}&step=3").text


def test_a_run_without_rollouts_has_no_tab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path)
    (tmp_path / "runs/steps/train/rollouts").mkdir()
    page = client(tmp_path, monkeypatch)
    shown = Page(page.get("/run/runs/steps?tab=rollouts").text)
    assert "Rollouts" not in shown.text
    assert "Training loss" in shown.text
    assert page.get("/api/rollouts/runs/steps").json()["expected"] == "a run that learned from its own completions"
    assert page.get("/run/runs/steps?tab=rollouts&step=-1").status_code == 422


def test_what_a_model_wrote_is_never_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Item(id=f"{n}\"'><img src=x>&/?#", prompt=ATTACK, expected_answer=ATTACK) for n in range(2)]
    rewarded_run(tmp_path / "run", [ATTACK], asked)
    page = client(tmp_path, monkeypatch)
    shown = Page(page.get(TAB).text)
    assert asked[0].id in "".join(shown.words)
    assert "".join(shown.words).count(SHOWN) > 4, "prompt, expected answer, completions"
    assert not shown.named("img")
    assert all((a.get("src") or "").startswith("/static/") for a in shown.named("script"))


def test_curves_of_rewards_come_in_figures_with_a_sentence(page: TestClient, tmp_path: Path) -> None:
    found = page.get("/api/curves/run").json()["series"]
    figures: dict[str, list[str]] = {}
    for series in found:
        figures.setdefault(series["figure"] or series["key"], []).append(series["title"])
        assert not series["figure"] or "Bad sign" in series["note"]
    assert list(figures)[:9] == ["reward", "groups", "lengths", "ends", "entropy", "mismatch", "clip_fraction", "times",
                                 "objective"]
    assert figures["reward"] == ["reward", "spread", "answer", "length"]
    assert figures["groups"] == ["some right", "all wrong", "all right", "equal rewards"], "none was left out"
    assert figures["times"] == ["drawing", "updating"]
    assert figures["objective"] == ["Value of the objective"]
    two_runs(tmp_path)
    assert not any(series["figure"] or series["note"] for series in page.get("/api/curves/runs/plain").json()["series"])
    assert "Mean reward" in page.get("/run/run").text


def test_curves_believe_no_endless_names() -> None:
    lines = [{"step": step, "loss": 1.0, "tokens": 3, "seconds": 2.0, "clip_fraction": 0.0} for step in range(1, 5)]
    lines[0] |= {"reward": 0.5, "reward_answer": 0.5}
    lines[2] |= {"reward": 1.0, "reward_answer": 1.0, "held_out_score": 0.25}
    drawn = {series.key: (series.x, series.y) for series in curves(Columns.of(lines), "step")}
    assert (drawn["reward"], drawn["held_out_score"]) == (([1.0, 3.0], [0.5, 1.0]), ([3.0], [0.25]))
    assert "reward_answer" not in drawn, "the only part is the reward once more"
    columns = Columns.of([*lines, *(lines[0] | {"step": 5, f"reward_{n}": 1.0} for n in range(500))])
    assert len(columns.rewarded) < 100
    assert len([key for key in {each.key for each in curves(columns, "step")} if key.startswith("reward_")]) <= 17
