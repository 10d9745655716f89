"""Runs that learned from rewards: what follows from their rollouts, and what is not checked; fakes are in tables."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evidence import records, reseal
from tests.evidence.fakes import digest_of, digest_says, put, together
from tests.evidence.records import ONE_UPDATE
from tests.evidence.rewarded import rewarded_run
from tests.evidence.verdicts import failed
from workings.evidence.verify import Verification, limits, verify
from workings.evidence.verify.checks.preferences import loss_bounds, margin_problems, pair_loss
from workings.evidence.verify.checks.rollouts import bound_problems
from workings.models.tokenizer import Tokenizer
from workings.scoring import mathematics
from workings.ways.preferences import Dpo

LINE = {"step": 3, "seconds": 0.5, "drawing_seconds": 0.25, "clip_fraction": 0.5, "kl_behavior": 0.0}
SIGMOID = Dpo(name="dpo")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rewarded_run(tmp_path_factory.mktemp("runs") / "tiny")


def texts(found: Verification) -> dict[str, str]:
    return {check.id: f"{check.verdict}: {check.text}" for check in found.checks}


def test_a_vocabulary_of_endless_tokens_is_not_written_out(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tokenizer, "token", lambda self, token_id: "x" * 10_000_000)
    found = {check.id: check for check in verify(honest).checks}["recompute.rewards"]
    assert found.verdict != "passed"
    assert "the text of its completions would take" in found.text


def test_the_reward_math_is_computed_again_where_its_library_is_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_verify", reason="the extra `score` is not installed")
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "math"}])
    found = verify(run)
    told = texts(found)
    assert (found.failed, found.level) == (0, 2), told
    monkeypatch.setattr(mathematics, "LIBRARIES", ("no-such-library",))
    found = verify(run)
    told = texts(found)
    assert found.failed == 0, told
    assert told["recompute.rewards"].startswith("not_checked: scorer: math needs math-verify"), told


def test_a_function_that_the_run_keeps_is_the_recorded_one_with_its_limits(tmp_path: Path) -> None:
    source = "def short(prompts, completions, **columns):\n    return [0.5] * len(prompts)\n"
    (tmp_path / "own.py").write_text(source)
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "answer"}, {"scorer": "own.py:short", "seconds": 9}])
    assert "own.py:short" in texts(verify(run))["recompute.rewards"], "said, not passed silently"
    for name, text, fails in (
            ("own.py", source, set()), ("own.py", source.replace("0.5", "0.6"), {"consistency.prompts"}),
            ("other.py", source, {"consistency.prompts"}), ("more/own.py", source, {"content.plain"})):
        kept = run / "config" / name
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text)
        reseal.reseal(run)
        assert failed(run) == fails, name
        kept.unlink()
    rewards = f"{run.name}/config/rewards.json"
    records.tell(run.parent, together(put(rewards, "1.parameters", {"seconds": 99}),
                                      digest_says(run.name, "rewards", digest_of(rewards))), run.name)
    assert "consistency.prompts" in failed(run)


def test_rewarding_that_takes_too_long(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.ScoringTime, "reason_over", property(lambda clock: "enough" if clock.seconds else ""))
    found = verify(honest)
    rewards = {one.id: one for one in found.checks}["recompute.rewards"]
    assert (found.level, rewards.verdict) == (1, "not_checked")
    assert "rewards were computed again, and no more: enough" in rewards.text


@pytest.mark.parametrize("algorithm", [
    {"name": "grpo"}, {"name": "dr_grpo"}, {"name": "cispo"}, {"name": "gspo"}, {"name": "dapo", "max_resamples": 3},
    # A bound outside of every ratio of a fresh completion.
    {"name": "rloo", "clip_high": 1e-6, "clip_low": 1e-6}])
def test_an_honest_update_of_every_algorithm_passes(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    found = verify(rewarded_run(tmp_path / "tiny", algorithm={**ONE_UPDATE, **algorithm}), level=1)
    assert found.failed == 0, [one.text for one in found.checks if one.verdict == "failed"]


@pytest.mark.parametrize("change", [
    {"drawing_seconds": 0.6}, {"clip_fraction": 1.5}, {"clip_fraction": -0.5}, {"kl_behavior": float("nan")},
    {"kl_reference": True}])
def test_no_update_has_such_a_number(change: dict[str, Any]) -> None:
    assert [*bound_problems(LINE)] == []
    assert len([*bound_problems(LINE | change)]) == 1


# --- mean margin, accuracy and loss of preference pairs: which of them can occur together -----------------------

@pytest.mark.parametrize("seed", range(20))
def test_every_set_of_margins_is_within_its_bounds(seed: int) -> None:
    margins = np.random.default_rng(seed).normal(scale=3, loc=seed - 10, size=1 + seed % 5)
    loss = float(np.mean([pair_loss(margin) for margin in margins]))
    right = int((margins > 0).sum())
    least, most = loss_bounds(float(margins.mean()), right, len(margins))
    assert least - 1e-12 <= loss <= most + 1e-12
    numbers = {"accuracy": right / len(margins), "margin": float(margins.mean()), "loss": loss}
    assert [*margin_problems(SIGMOID, numbers, len(margins), 1e-9)] == []


def test_the_bounds_are_reached() -> None:
    assert loss_bounds(1.0, 2, 2)[0] == pair_loss(1.0)
    assert loss_bounds(1.0, 1, 2)[0] == (pair_loss(0.0) + pair_loss(2.0)) / 2
    assert loss_bounds(1.0, 2, 2)[1] == (pair_loss(0.0) + pair_loss(2.0)) / 2
    assert loss_bounds(-1.0, 1, 2) == ((pair_loss(0.0) + pair_loss(-2.0)) / 2, math.inf)


@pytest.mark.parametrize(("numbers", "word"), [
    ({"accuracy": 0.5, "margin": 1.0, "loss": 0.317}, "at least"),
    ({"accuracy": 1.0, "margin": 1.0, "loss": 0.6}, "at most"),
    ({"accuracy": 0.0, "margin": 1.0, "loss": 0.4}, "no pair correct"),
    ({"accuracy": 1.0, "margin": -1.0, "loss": 1.4}, "every pair correct"),
])
def test_numbers_that_no_two_pairs_have(numbers: dict[str, float], word: str) -> None:
    [problem] = margin_problems(SIGMOID, numbers, 2, 1e-4)
    assert word in problem


def test_other_losses_are_held_to_the_sign_alone() -> None:
    for algorithm in (Dpo(name="dpo", loss="ipo"), Dpo(name="dpo", length_normalized=True)):
        assert [*margin_problems(algorithm, {"accuracy": 0.5, "margin": 1.0, "loss": 0.01}, 2, 1e-4)] == []
        assert [*margin_problems(algorithm, {"accuracy": 1.0, "margin": -1.0, "loss": 1.4}, 2, 1e-4)]
