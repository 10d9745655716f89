"""A run that cannot be learning stops with a sentence, and a resumed one stops where the uninterrupted one would."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rollouts.making import TWO, sample
from workings.data.batches import Position
from workings.engines.base import StepResult
from workings.errors import TrainingFailed
from workings.rollouts.rollout import Rollout, RolloutShape, batch_of
from workings.ways.distill import Distill
from workings.ways.parts.rollout_experience import RolloutExperience
from workings.ways.parts.stall_detector import StallDetector
from workings.ways.rewards import Grpo

ALGORITHM = Grpo(name="grpo", patience=3, max_mismatch=0.05)
CHANGED = StepResult(loss=0.0, grad_norm=1.0, share_of_weights_changed=0.5)


def of(*rewards: float, stop: int | None = 1) -> Rollout:
    group = replace(TWO.groups[0], samples=tuple(sample([5], reward=reward, stop=stop) for reward in rewards))
    return replace(TWO, groups=(group,), trainer_log_probs=())


@pytest.mark.parametrize(("rollout", "said"), [
    (of(0.0, 0.0), "same reward (the last ones: 0)"),
    (of(1.0, 0.0, stop=None), "every completion was cut off at algorithm.max_new_tokens (256)"),
])
def test_nothing_to_learn_for_some_rollouts_in_a_row(rollout, said) -> None:
    detector = StallDetector.from_lines(ALGORITHM, [])
    detector.check_rollout(rollout)
    detector.check_rollout(of(1.0, 0.0))  # one that can be learned from begins the count anew
    detector.check_rollout(rollout)
    detector.check_rollout(rollout)
    with pytest.raises(TrainingFailed) as caught:
        detector.check_rollout(rollout)
    assert said in str(caught.value)
    assert str(caught.value).startswith("not learning: ")


def test_weights_that_do_not_change() -> None:
    detector = StallDetector.from_lines(ALGORITHM, [])
    still = replace(CHANGED, share_of_weights_changed=0.0)
    for result in (still, still, CHANGED, still, still):
        detector.check_update(1, {}, result)
    with pytest.raises(TrainingFailed, match="3 updates in a row changed no weight"):
        detector.check_update(1, {}, still)


def test_samples_of_another_model() -> None:
    detector = StallDetector.from_lines(ALGORITHM, [])
    detector.check_update(1, {"mismatch": 0.049}, CHANGED)
    with pytest.raises(TrainingFailed, match=r"disagree by 0\.0501 nats per token"):
        detector.check_update(2, {"mismatch": 0.0501}, CHANGED)


def test_no_group_to_learn_from() -> None:
    left_out = replace(TWO, groups=tuple(replace(group, kept=False) for group in TWO.groups), trainer_log_probs=())
    with pytest.raises(TrainingFailed, match="of 2 groups that were sampled for update 1 none"):
        StallDetector.from_lines(ALGORITHM, []).check_rollout(left_out)


def test_no_group_is_left_for_a_later_update() -> None:
    shape = RolloutShape(micro_batches=1, rows=len(TWO.trained_samples), updates=2, buckets=(64,), pad_id=0,
                         learned=8)
    sampler: Any = SimpleNamespace(shape=shape, batch=lambda rollout, step: batch_of(
        rollout, step - rollout.step, shape, ALGORITHM))
    experience = RolloutExperience(sampler, load_rollout=lambda step: TWO, save_rollout=lambda rollout: None,
                                   stall_detector=StallDetector.from_lines(ALGORITHM, []), last_step=2)
    with pytest.raises(TrainingFailed, match=r"too few of the 2 groups .* for update 1 .* none is left for update 2"):
        experience.next_batch(None, Position(), 2)


def test_a_resumed_run_counts_on() -> None:
    lines = [{"groups_without_spread": 1, "truncated": 0.5, "share_of_weights_changed": 0.0}] * 2
    detector = StallDetector.from_lines(ALGORITHM, lines)
    assert (detector.equal_reward_rollouts, detector.truncated_rollouts, detector.unchanged_updates) == (2, 0, 2)
    with pytest.raises(TrainingFailed, match="3 rollouts in a row"):
        detector.check_rollout(of(0.0, 0.0))


def test_a_teacher_judges_completions_that_are_alike_and_that_do_not_end() -> None:
    detector = StallDetector.from_lines(Distill(name="distill", teacher="missing", patience=1), [])
    for _ in range(3):
        detector.check_rollout(of(0.0, 0.0, stop=None))
    with pytest.raises(TrainingFailed, match="1 updates in a row changed no weight"):
        detector.check_update(1, {}, replace(CHANGED, share_of_weights_changed=0.0))
