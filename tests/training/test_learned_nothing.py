"""A finished run in which nothing could be learned says so, in every way of learning and however short it was."""

from typing import Any

import pytest

from workings.runs.train_result import all_cut_off, learned_nothing

STILL = {"share_of_weights_changed": 0.0, "learning_rate": 1e-3}
CHANGED = {**STILL, "share_of_weights_changed": 0.5}


def rollout(**more: float) -> dict[str, float]:
    """A metrics line of a rollout from which something can be learned."""
    return {"reward": 0.5, "reward_deviation": 0.5, "groups_without_spread": 0.0, "truncated": 0.0, "completions": 8.0,
            "completion_tokens_most": 2.0, **CHANGED, **more}


CUT, EQUAL = {"truncated": 1.0}, {"reward_deviation": 0.0, "groups_without_spread": 1.0}


@pytest.mark.parametrize(("lines", "said"), [
    ([{**CHANGED, "learning_rate": 1e-12}] * 3, "all learning rates add up to 3e-12"),
    ([STILL, STILL], "no update changed a weight; the learning rate is too small"),
    ([rollout(**CUT, **EQUAL, **STILL)] * 5, "no update changed a weight: all 40 completions were cut off at 2 tokens "
     "(algorithm.max_new_tokens) and all rewards were 0.5"),
    ([rollout(**CUT, **EQUAL), CHANGED], "all 8 completions were cut off at 2 tokens"),
    ([rollout(**EQUAL)], "all rewards were 0.5"),
    ([rollout(groups_without_spread=1.0), rollout(groups_without_spread=1.0, reward=0.0)],
     "in every group all completions had the same reward"),
    ([rollout(**EQUAL), rollout(**EQUAL, reward=1.0)], "in every group all completions had the same reward"),
])
def test_why_nothing_was_learned(lines: list[dict[str, Any]], said: str) -> None:
    assert learned_nothing(lines).startswith("nothing was learned: ")
    assert said in learned_nothing(lines)


@pytest.mark.parametrize("lines", [
    [], [STILL, CHANGED], [rollout()], [rollout(**CUT), rollout()], [rollout(**EQUAL), rollout()],
    [rollout(**CUT), CHANGED],  # rewards of completions that were cut off may differ
    [{**CHANGED, "truncated": 1.0}],  # a teacher judges every token of a completion that was cut off
])
def test_a_run_that_may_have_learned_is_not_accused(lines: list[dict[str, Any]]) -> None:
    assert not learned_nothing(lines)


def test_completions_that_were_all_cut_off_are_said() -> None:
    assert all_cut_off([rollout(**CUT), CHANGED]) == (
        "all 8 completions were cut off at 2 tokens (algorithm.max_new_tokens)")
    assert not all_cut_off([rollout(**CUT), rollout()])
