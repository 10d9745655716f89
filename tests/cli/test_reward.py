"""`workings reward check` as a person and a script meet it."""

import json

import pytest

from tests.runs import rewarded

LONG = ["data.max_length=320", "data.buckets=[320]", "algorithm.max_new_tokens=256"]


@pytest.fixture
def recipe(tmp_path):
    return rewarded.write(tmp_path)


def test_a_good_reward_passes_with_a_table(workings, recipe):
    done = workings("reward", "check", recipe, "rewards=[{scorer: answer}]", *LONG, "--no-model", "--prompts", "3")
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["reward", "right", "beats", "answer"]
    assert rows[1].split() == ["empty", "0.00", "0", "%", "0", "%", "0.00"]
    assert "3 prompts; beats: share of them where the probe earns more than the correct answer" in done.stdout
    assert rows[-1] == "no probe earns what it should not"


def test_a_bad_reward_is_refused_with_exit_code_1(workings, recipe):
    done = workings("reward", "check", recipe, "rewards=[{scorer: steps}]", *LONG, "--no-model", "--json", check=False)
    assert done.returncode == 1, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    assert not values["passed"]
    assert any("steps with a wrong answer" in text for text in values["refusals"])


def test_samples_are_drawn(workings, recipe):
    done = workings("reward", "check", recipe, "rewards=[{scorer: answer}, {scorer: form}]", "--prompts", "2", "--json")
    values = json.loads(done.stdout.splitlines()[-1])
    assert values["samples"]["count"] == 8
    assert set(values["samples"]["rewards"]) == {"answer", "form"}
