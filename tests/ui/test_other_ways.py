"""Runs that learn from pairs or from a teacher: curves, what they are followed by, and their own tabs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reports import rewarded
from tests.reports.parsed_page import Page
from tests.ui.making import client, paired_run, write
from workings.record.layout import METRICS, TEACHER, rollout_file
from workings.reports.html import write_report
from workings.rollouts.rollout_json import to_json


def taught_run(final: Path) -> Path:
    """A run whose tokens were scored by a teacher, which found each a quarter of a nat likelier or less likely."""
    run = rewarded.rewarded_run(final)
    for step in range(1, rewarded.STEPS + 1):
        drawn = rewarded.rollout(step)
        groups = tuple(replace(group, samples=tuple(replace(sample, rewards={}, reward=0.0, advantage=0.0)
                                                    for sample in group.samples)) for group in drawn.groups)
        # Drawn at -0.5 each; the middle prompt's were likelier to the teacher.
        said = [np.full(len(sample.tokens_with_stop), -0.25 if prompt.item.id == "mixed" else -0.75, np.float32)
                for prompt, sample in drawn.trained_samples]
        made = replace(drawn, groups=groups, reference_log_probs=tuple(said))
        (run / rollout_file(step)).write_text(json.dumps(to_json(made)))
    (run / TEACHER).write_text(json.dumps({"run": "large-one", "precision": "bf16"}))
    write(run / METRICS, [{"step": step, "loss": 0.1, "tokens": 3, "seconds": 2.0, "clip_fraction": 0.0,
                           "kl_teacher": 1.0 / step} for step in (1, 2, 3)])
    return run


def test_a_loss_of_pairs_is_not_called_one_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paired_run(tmp_path / "run")
    page = client(tmp_path, monkeypatch)
    found = {series["key"]: series for series in page.get("/api/curves/run").json()["series"]}
    assert not {"loss", "objective", "updating_seconds"} & found.keys()
    assert found["preference_loss"]["y"] == pytest.approx([0.6931, 0.34655, 0.231033], rel=1e-5)
    assert found["margin"]["y"] == [0.0, 1.5, 3.0]
    assert [found[key]["figure"] for key in ("margin", "chosen_reward", "rejected_reward")] == ["margin"] * 3
    assert {"accuracy", "chosen_log_prob", "rejected_log_prob"} <= found.keys()
    shown = Page(page.get("/run/run").text).text
    assert "Margin of pairs 3 0 in the first step" in shown
    assert "nats per token" not in shown
    assert "learned from 3 preference pairs (dpo)" in shown
    assert [row["learned_from"] for row in page.get("/api/runs?q=preference").json()["rows"]] == [
        "3 preference pairs (dpo)"]
    report = Page(write_report(tmp_path / "page.html", [tmp_path / "run"]).read_text()).text
    assert "Preference loss" in report
    assert "Training loss" not in report


def test_a_teacher_has_divergences_and_no_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught_run(tmp_path / "run")
    page = client(tmp_path, monkeypatch)
    found = page.get("/api/rollouts/run?step=2").json()
    assert found["teacher"] == "large-one"
    assert {row["id"]: [one["divergence"] for one in row["completions"]] for row in found["rollout"]["rows"]} == {
        "hard": [0.25, 0.25], "mixed": [-0.25, -0.25], "easy": [0.25, 0.25]}
    nearest = page.get("/api/rollouts/run?step=2&order=lowest").json()["rollout"]["rows"]
    assert [row["id"] for row in nearest] == ["mixed", "hard", "easy"]
    shown = Page(page.get("/run/run?tab=rollouts&step=2").text)
    assert shown.open == []
    for words in ("-0.25 nats per token from the teacher", "the teacher large-one scores every token"):
        assert words in shown.text
    for words in ("mean reward", "Mean reward", "advantage", "teaches nothing"):
        assert words not in shown.text, words
    curves = {series["key"]: series for series in page.get("/api/curves/run").json()["series"]}
    assert curves["kl_teacher"]["y"] == pytest.approx([1.0, 0.5, 1 / 3])
    assert "read the divergence from the teacher instead" in curves["objective"]["note"]
    assert "Nats per token from the teacher 0.3333 1 in the first rollout" in Page(page.get("/run/run").text).text


def test_rewards_with_a_frozen_reference_have_no_divergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = rewarded.rewarded_run(tmp_path / "run")
    drawn = rewarded.rollout(2)
    made = replace(drawn, reference_log_probs=tuple(np.full(len(sample.tokens_with_stop), -2.0, np.float32)
                                                    for _, sample in drawn.trained_samples))
    (run / rollout_file(2)).write_text(json.dumps(to_json(made)))
    rows = client(tmp_path, monkeypatch).get("/api/rollouts/run?step=2&order=highest").json()["rollout"]["rows"]
    assert [row["id"] for row in rows] == ["easy", "mixed", "hard"], "by reward"
    assert {one["divergence"] for row in rows for one in row["completions"]} == {None}
