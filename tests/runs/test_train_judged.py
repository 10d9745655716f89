"""Training with a model as the judge: its replies are in the record, and the rewards follow from them without it."""

from pathlib import Path

import pytest

from tests.evaluation.judging import judge, labelled
from tests.runs import rewarded
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.evidence.verify import verify
from workings.record import atomic
from workings.record.canonical import loads
from workings.runs.judge_check import check_judge
from workings.runs.train import train
from workings.scoring.model_judge import score_of

WORDS = ("engine=torch", "training.steps=2",
         "rewards=[{scorer: judge, file: judge.json}, {scorer: length, weight: 0.1}]")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose completions a judge rewarded."""
    folder = tmp_path_factory.mktemp("judged")
    recipe = rewarded.write(folder)
    with judge() as (url, _):
        check_judge(url, "grader-1", labelled(folder / "labelled.jsonl", 200), folder / "judge.json", max_tokens=64)
        return train(str(recipe), folder / "run", WORDS).run


def test_replies_are_kept_and_verified_without_the_judge(judged: Path) -> None:
    rollout = loads((judged / "train/rollouts/step_000001.json").read_bytes())
    assert rollout["rewards"]["judge"] == [score_of(reply) for reply in rollout["judge_replies"]]
    assert len(set(rollout["rewards"]["judge"])) > 1
    recorded = loads((judged / "config/rewards.json").read_bytes())[0]
    assert recorded["parameters"]["prompt"].startswith("You grade one answer")
    assert "127.0.0.1" not in (judged / "config/rewards.json").read_text()
    told = {check.id: check for check in verify(judged).checks}
    assert [f"{name}: {check.text}" for name, check in told.items() if check.verdict == "failed"] == []
    assert "its judge's replies are as recorded" in told["recompute.rewards"].text
    assert lines_of(judged)[0]["reward_judge"] > 0


def test_another_reward_than_the_reply_gives_is_found(judged: Path) -> None:
    path = judged / "train/rollouts/step_000001.json"
    before = path.read_bytes()
    rollout = loads(before)
    rollout["judge_replies"][0] = "9" if rollout["judge_replies"][0] != "9" else "8"
    atomic.write_json(path, rollout)
    try:
        told = {check.id: check for check in verify(judged).checks}
    finally:
        path.write_bytes(before)
    assert told["recompute.rewards"].verdict == "failed"
    assert "its recorded reply gives" in told["recompute.rewards"].text


def test_a_judge_that_was_not_checked_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    train_refuses(rewarded.write(tmp_path), tmp_path / "run", WORDS, "judge.json does not exist")
