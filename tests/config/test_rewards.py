"""Rewards in a recipe: strict, weighted, each once."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.config.minimal_recipe import MINIMAL
from workings.config.load import check_recipe
from workings.config.rewards import SHIPPED_REWARDS, FileReward, OverlongReward, RewardConfig, reward_name
from workings.config.yaml_reader import parse_yaml
from workings.errors import RequestError

REWARD = TypeAdapter(RewardConfig)
LEARNED = f"{MINIMAL}algorithm: {{name: grpo, group: 2, max_new_tokens: 16}}\n"


def check(written):
    return check_recipe(parse_yaml(f"{LEARNED}rewards: {written}", "test"), "recipe.yaml", as_written=True)


def test_a_list_of_rewards():
    recipe = check("[{scorer: answer, weight: 2}, {scorer: overlong, buffer: 16, weight: 0.5}, "
                   "{scorer: code/my_rewards.py:brevity, weight: -1}]")
    _, overlong, brevity = recipe.rewards
    assert [reward.weight for reward in recipe.rewards] == [2.0, 0.5, -1.0]
    assert isinstance(overlong, OverlongReward)
    assert overlong.buffer == 16
    assert isinstance(brevity, FileReward)
    assert (brevity.file, brevity.function) == ("code/my_rewards.py", "brevity")
    assert list(map(reward_name, recipe.rewards)) == ["answer", "overlong", "my_rewards.py:brevity"]
    # A resolved recipe names every key and is the same recipe.
    assert check_recipe(recipe.model_dump(mode="json"), "again").rewards == recipe.rewards


@pytest.mark.parametrize(("written", "said"), [
    *((written, f"one of {', '.join(SHIPPED_REWARDS)}, or FILE.py:FUNCTION")
      for written in ("[{scorer: ansver}]", "[{weight: 2}]", "[answer]", "[{scorer: 3}]")),
    ("[{scorer: answer, seconds: 3}]", "`rewards.0.seconds` goes with `scorer: FILE.py:FUNCTION`"),
    ("[{scorer: form}, {scorer: form, weight: 2}]", "form more than once, in recipe.yaml\nexpected: each reward once, "
     "because its values are recorded by name"),
    ("[{scorer: a/own.py:f}, {scorer: b/own.py:f}]", "own.py:f more than once")])
def test_wrong_rewards_are_refused_with_what_is_right(written, said):
    with pytest.raises(RequestError) as caught:
        check(written)
    assert said in str(caught.value)


@pytest.mark.parametrize(("written", "said"), [
    ({"scorer": "answer", "weight": 0}, "a weight other than 0"),
    ({"scorer": "answer", "weight": float("nan")}, "finite"), ({"scorer": "answer", "buffer": 4}, "Extra inputs"),
    ({"scorer": "overlong"}, "Field required"), ({"scorer": "overlong", "buffer": 0}, "greater than or equal to 1"),
    ({"scorer": ".py:f"}, "should match pattern"), ({"scorer": "a.py:f g"}, "should match pattern"),
])
def test_what_no_reward_has_is_refused(written, said):
    with pytest.raises(ValidationError, match=said):
        REWARD.validate_python(written)


