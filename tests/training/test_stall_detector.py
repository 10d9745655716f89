"""A run that cannot be learning stops with a sentence, and a resumed one stops where the uninterrupted one would."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rollouts.making import TWO, sample
from workings.data.batches import Position
from workings.engines.base import StepResult
from workings.errors import TrainingFailed
from workings.record.metrics import nothing_left
from workings.rollouts.rollout import Rollout, rollout_metrics
from workings.ways.distill import Distill
from workings.ways.parts.rollout_batch import RolloutShape, batch_of
from workings.ways.parts.rollout_experience import RolloutExperience, StallDetector
from workings.ways.rewards import Grpo

ALGORITHM = Grpo(name="grpo", patience=3, max_mismatch=0.05)
CHANGED = StepResult(loss=0.0, grad_norm=1.0, share_of_weights_changed=0.5)


def look(detector: StallDetector, rollout: Rollout) -> None:
    """The detector's check of a rollout whose first reward is 1 for a correct completion."""
    names = () if isinstance(detector.algorithm, Distill) else ("answer",)
    detector.check_rollout(rollout, {} if not names else rollout_metrics(rollout, names))


def of(*rewards: float, stop: int | None = 1) -> Rollout:
    group = replace(TWO.groups[0], samples=tuple(sample([5], reward=reward, stop=stop) for reward in rewards))
    return replace(TWO, groups=(group,), trainer_log_probs=())


@pytest.mark.parametrize(("rollout", "said"), [
    (of(0.0, 0.0), "same reward (the last ones: 0)"),
    (of(1.0, 0.0, stop=None), "every completion was cut off at algorithm.max_new_tokens (256)"),
])
def test_nothing_to_learn_for_some_rollouts_in_a_row(rollout, said) -> None:
    detector = StallDetector.from_lines(ALGORITHM, [])
    look(detector, rollout)
    look(detector, of(1.0, 0.0))  # one that can be learned from begins the count anew
    look(detector, rollout)
    look(detector, rollout)
    with pytest.raises(TrainingFailed) as caught:
        look(detector, rollout)
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
        look(StallDetector.from_lines(ALGORITHM, []), left_out)


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
    lines = [{"groups_without_spread": 1, "groups_all_right": 0, "truncated": 0.5, "share_of_weights_changed": 0.0}] * 2
    detector = StallDetector.from_lines(ALGORITHM, lines)
    assert (detector.equal_reward_rollouts, detector.truncated_rollouts, detector.unchanged_updates) == (2, 0, 2)
    with pytest.raises(TrainingFailed, match="3 rollouts in a row"):
        look(detector, of(0.0, 0.0))


def test_a_teacher_judges_completions_that_are_alike_and_that_do_not_end() -> None:
    detector = StallDetector.from_lines(Distill(name="distill", teacher="missing", patience=1), [])
    for _ in range(3):
        look(detector, of(0.0, 0.0, stop=None))
    with pytest.raises(TrainingFailed, match="1 updates in a row changed no weight"):
        detector.check_update(1, {}, replace(CHANGED, share_of_weights_changed=0.0))


def test_completions_that_are_all_correct_end_the_run_as_complete_once_rewards_have_differed() -> None:
    still = replace(CHANGED, share_of_weights_changed=0.0)
    never, learned = (StallDetector.from_lines(ALGORITHM, []) for _ in range(2))
    look(learned, of(1.0, 0.0))
    lines = [{"groups_without_spread": 0.0, "groups_all_right": 0.0}]
    for _ in range(ALGORITHM.patience):
        assert not nothing_left(ALGORITHM.model_dump(), lines)
        look(learned, of(1.0, 1.0))
        learned.check_update(2, {}, still)
        lines.append({"groups_without_spread": 1.0, "groups_all_right": 1.0})
    assert nothing_left(ALGORITHM.model_dump(), lines).startswith("nothing is left to learn: in 3 rollouts in a row")
    assert not nothing_left(ALGORITHM.model_dump(), lines[1:])
    # A reward that is always 1 is a mistake.
    for _ in range(ALGORITHM.patience - 1):
        look(never, of(1.0, 1.0))
    with pytest.raises(TrainingFailed, match="all completions of each prompt had the same reward"):
        look(never, of(1.0, 1.0))
