"""Runs that learned from rewards: their curves, what they drew, and what trackers are told."""

import json
from pathlib import Path

import pytest

from tests.record import synthetic
from tests.reports import rewarded
from tests.reports.making import two_runs as two_imitations
from tests.reports.parsed_page import Page
from tests.reports.rewarded import ATTACK, SHOWN, rewarded_run
from workings.errors import RecordError
from workings.reports.html import write_report
from workings.reports.reinforcement import KNOWN_METRICS, PANELS, logged, numbers
from workings.reports.rollouts import read_rollout, texts, visible
from workings.reports.trackers import METRICS
from workings.reports.trackers import numbers as tracked


def report(place: Path, *runs: Path) -> Page:
    """The page of these runs; what it loads or starts is an error."""
    page = Page(write_report(place / "page.html", runs).read_text(encoding="utf-8"))
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "form"}
    return page


@pytest.mark.parametrize(("change", "said"), [
    (lambda path: path.unlink(), "there is no rollout of update 2 in this record"),
    (lambda path: path.write_bytes(path.read_bytes()[:300]), "step_000002.json cannot be read: not JSON"),
    (lambda path: path.write_text(path.read_text().replace('"step":2', '"step":7')),
     "its update differs from its file name"),
    (lambda path: path.write_text(path.read_text().replace('"rewards":{', '"rewards":{"x":[1],')), "differ in length"),
    (lambda path: (path.unlink(), path.symlink_to("step_000001.json")), "there is no rollout of update 2"),
    (lambda path: (path.parents[2] / "data/prompts.jsonl").unlink(), "data/prompts.jsonl is missing"),
])
def test_a_rollout_that_cannot_be_read_says_why(tmp_path: Path, change, said: str) -> None:
    run = rewarded_run(tmp_path / "run")
    change(run / "train/rollouts/step_000002.json")
    with pytest.raises(RecordError, match=said):
        read_rollout(run, 2)


def test_unseen_characters_are_written_out() -> None:
    assert visible("a\tb\nc\u200fd\x00") == "a\tb\nc⟨U+200F⟩d⟨U+0000⟩"
    sample = rewarded.rollout(1, [ATTACK]).groups[0].samples[0]
    assert texts(sample, synthetic.tokenizer()) == (SHOWN, synthetic.tokenizer().token(sample.completion.stop_token))


def test_a_report_has_the_curves_of_both_kinds(tmp_path: Path) -> None:
    run, imitation = rewarded_run(tmp_path / "run"), two_imitations(tmp_path)[0]
    page = report(tmp_path, run)
    for text in ("Reward", "Groups of completions", "Length of completions", "Bad sign",
                 "Mismatch of sampler and trainer",
                 "(value of the objective of dr_grpo)"):
        assert text in page.text, text
    assert "Training loss" not in page.text, "its loss is not one of traces"
    drawn = [a for a in page.named("svg") if a.get("role") == "img"]
    assert len(drawn) == 2 * len(page.named("figure")) == 8
    both = report(tmp_path, run, rewarded_run(tmp_path / "again"), imitation).text
    assert ("Reward" in both, "Training loss" in both) == (True, True)
    assert "Rewards" not in report(tmp_path, imitation).text


def test_every_number_has_a_figure_or_a_reason(tmp_path: Path) -> None:
    run = rewarded_run(tmp_path / "run")
    line = json.loads((run / "train/metrics.jsonl").read_text().splitlines()[0])
    found = numbers(line | {"held_out_score": 0.5, "held_out_items": 8, "hidden_form": 1})
    drawn = {key for panel in PANELS for key in panel.lines_of(found)}
    assert set(found) - drawn == {"completions", "mismatch_ratio", "held_out_items"}
    assert {"reward_answer", "reward_length", "hidden_form"} == drawn - KNOWN_METRICS
    assert found["updating_seconds"] == pytest.approx(line["seconds"] - line["drawing_seconds"])
    assert logged(line | {"reward": True, "reward_answer": "many"}).keys() == logged(line).keys() - {
        "reward", "reward_answer"}


def test_a_step_between_two_rollouts_has_no_reward() -> None:
    line = {"step": 2, "loss": 0.5, "seconds": 3.0}
    rewarded_line = {"clip_fraction": 0.25, "entropy": 1.0, "kl_behavior": 0.1}
    assert numbers(line | rewarded_line) == rewarded_line | {"updating_seconds": 3.0}
    assert numbers(line) == {}


def test_trackers_are_told_the_rewards(tmp_path: Path) -> None:
    line = json.loads((rewarded_run(tmp_path / "run") / "train/metrics.jsonl").read_text().splitlines()[0])
    told = dict(tracked(line))
    assert told["train/reward"] == line["reward"] == 0.375
    assert told["train/reward_length"] == -0.25
    assert told["train/mismatch"] == line["mismatch"]
    assert "train/updating_seconds" not in told, "the log does not have it"
    assert set(dict(tracked(synthetic.steps()[0]))) <= {f"train/{key}" for key in METRICS}
