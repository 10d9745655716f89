"""`reward check` on a real recipe: probes, a drawn group, rewards computed again."""

import pytest

from tests.runs import rewarded
from workings.errors import RequestError, RewardError
from workings.record.canonical import loads
from workings.record.layout import rollout_file
from workings.record.progress import ProgressListener, report_progress_to
from workings.runs.reward_check import check_rewards
from workings.runs.train import train

# Each starts its own processes, and the answer alone fits into few tokens of the trained vocabulary.
pytestmark = pytest.mark.children
LONG = ["data.max_length=320", "data.buckets=[320]", "algorithm.max_new_tokens=256"]
NEEDS_STEPS = "steps with a wrong answer"


@pytest.fixture
def recipe(tmp_path):
    return str(rewarded.write(tmp_path / "asked"))


def check(recipe, rewards, *words, **options):
    return check_rewards(recipe, [f"rewards={rewards}", *LONG, *words], **{"prompts": 4, "model": False} | options)


def test_the_answer_alone_is_earned_by_right_answers_only(recipe):
    found = check(recipe, "[{scorer: answer}]")
    assert (found.refusals, found.warnings) == ((), ())
    values = found.to_json()
    assert values["passed"]
    assert values["prompts"] == 4
    assert "samples" not in values
    assert values["right_answer"] == {"reward": 1.0, "right": 1.0, "rewards": {"answer": 1.0}}
    assert all(probe["reward"] == probe["right"] for probe in values["probes"].values())
    # Of 100 times the answer so much as fits is cut off, and a number where a text was cut off is no answer.
    assert {name for name, probe in values["probes"].items() if probe["right"]} == {"answer without steps"}
    assert NEEDS_STEPS in values["probes"]
    # 2,000 words are more than 256 tokens: it is cut off as a completion would be.
    assert all(each.probes["very long"].truncated for each in found.prompts)


@pytest.mark.parametrize(("rewards", "probe", "reward"), [
    ("[{scorer: steps}]", NEEDS_STEPS, "steps"),
    ("[{scorer: 'my.py:anywhere'}, {scorer: steps, weight: 0.5}]", "bare numbers", "my.py:anywhere"),
    pytest.param("[{scorer: answer, weight: 0.1}, {scorer: 'my.py:long', weight: 10}]", "very long", "my.py:long",
                 marks=pytest.mark.full),
    ("[{scorer: answer, weight: 0.1}, {scorer: length}]", "empty", "length")])
def test_a_probe_that_earns_what_it_should_not_is_named_with_its_reward(recipe, rewards, probe, reward):
    refused = [text for text in check(recipe, rewards).refusals if f"the probe `{probe}`" in text]
    assert len(refused) == 1
    assert f"by the reward {reward}" in refused[0]


@pytest.mark.parametrize("name", [pytest.param("random_", marks=pytest.mark.full), "counted", "hashed"])
def test_a_reward_that_is_not_the_same_twice_is_named(recipe, name):
    found = check(recipe, f"[{{scorer: answer, weight: 9e9}}, {{scorer: 'my.py:{name}'}}]")
    assert len(found.changed) == 1
    assert found.changed[0].startswith(f"the reward my.py:{name} changes when")
    assert found.changed[0] in found.refusals
    assert not found.to_json()["passed"]


def test_what_is_drawn_is_what_the_first_update_learns_from(recipe, tmp_path):
    heard = []

    class Listens(ProgressListener):
        def begins(self, what):
            heard.append(what)

    with report_progress_to(Listens()):
        found = check_rewards(recipe, ["engine=torch"], prompts=2)
    assert heard[:3] == ["reading the data", "opening the model with the engine torch",
                         "sampling completions of 2 prompts"]
    values = found.to_json()["samples"]
    assert (values["count"], values["max_new_tokens"]) == (8, 16)
    run = train(recipe, tmp_path / "run", ["engine=torch", "training.steps=1"]).run
    rollout = loads((run / rollout_file(1)).read_bytes())
    assert [each.prompt for each in found.prompts] == rollout["prompts"]
    assert [sample.tokens for sample in found.samples] == rollout["lengths"]
    assert [sample.reward() for sample in found.samples] == pytest.approx(rollout["reward"], abs=1e-12)
    # A random model that never ends: said with what to do.
    assert values["truncated"] > 0.5
    assert any("cut off at algorithm.max_new_tokens (16)" in text for text in found.warnings)


def test_mistakes_are_said(recipe):
    with pytest.raises(RequestError, match="has no rewards to check"):
        check_rewards(recipe, ["algorithm={name: sft}", "rewards=[]", "evaluation={}"])
    with pytest.raises(RequestError, match="has no file "):
        check_rewards(recipe, ["rewards=[{scorer: 'gone.py:x'}]"])
    with pytest.raises(RewardError, match=r"reward my\.py:broken: "):
        check(recipe, "[{scorer: 'my.py:broken'}]")
