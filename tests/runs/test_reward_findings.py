"""What a probe may earn, on cases computed by hand."""

import pytest

from workings.runs.reward_findings import PromptRewards, TextRewards, equal_reward_groups, refusals, warnings


def earned(right=False, truncated=False, **rewards):
    return TextRewards(rewards=rewards, right=right, tokens=10, truncated=truncated)


def tried(probes, samples=(), right_answer=None):
    return PromptRewards(prompt="q", right_answer=right_answer or earned(True, answer=1.0, form=0.2), probes=probes,
                 samples=tuple(samples))


WRONG, RIGHT = earned(answer=0.0, form=0.0), earned(True, answer=1.0, form=0.2)


def test_nothing_is_refused_where_only_right_answers_earn():
    probes = {"empty": WRONG, "very long": RIGHT, "answer repeated": earned(True, answer=1.0, form=0.0),
              "answer without steps": RIGHT, "form only": WRONG}
    assert refusals([tried(probes)]) == []
    # A model that is never right: its median is 0, and the right answer in a clumsy form is no cheat.
    assert refusals([tried(probes, [WRONG] * 4)]) == []


def test_a_wrong_probe_must_not_earn_more_than_the_median_sample():
    samples = [earned(length=-0.5), earned(length=-0.4), earned(length=-0.3), earned(True, length=-0.2)]
    case = tried({"empty": earned(length=0.0)}, samples, earned(True, length=0.1))
    assert case.median_sample_reward() == pytest.approx(-0.35)
    assert case.probe_wins("empty")
    assert refusals([case]) == [
        "the probe `empty` is wrong and earns 0; the model's median sample earns -0.35: 0.35 more, most of it by the "
        "reward length"]


def test_the_mean_over_prompts_decides():
    good = tried({"empty": earned(own=0.0)}, [earned(own=0.4)] * 2, earned(True, own=1.0))
    bad = tried({"empty": earned(own=0.3)}, [earned(own=0.0)] * 2, earned(True, own=1.0))
    assert refusals([good, bad]) == []
    assert len(refusals([good, bad, bad])) == 1


def test_what_a_wrong_probe_does_rightly_is_not_counted_beside_the_model():
    probe = {"steps with a wrong answer": earned(answer=0.0, form=0.2, steps=0.5)}
    right = earned(True, answer=1.0, form=0.2, steps=0.5)
    samples = [earned(answer=0.0, form=0.0, steps=0.0)] * 3
    assert refusals([tried(probe, samples, right)]) == []
    own = {"steps with a wrong answer": earned(answer=0.0, form=0.2, own=0.3)}
    found = refusals([tried(own, [earned(answer=0.0, form=0.0, own=0.0)], earned(True, answer=1.0, form=0.2, own=0.3))])
    assert found == [
        "the probe `steps with a wrong answer` is wrong and earns 0.3; the model's median sample earns 0: 0.3 more, "
        "most of it by the reward own (form not counted: it earns them legitimately)"]


def test_a_wrong_probe_must_earn_less_than_the_right_answer():
    probe = {"steps with a wrong answer": earned(steps=1.0)}
    found = refusals([tried(probe, right_answer=earned(True, steps=1.0))])
    assert found == ["the probe `steps with a wrong answer` is wrong and earns 1; the correct answer earns 1: "
                     "as much, most of it by the reward steps"]
    more = refusals([tried({"empty": earned(length=0.0)}, right_answer=earned(True, length=-0.5))])
    assert "0.5 more" in more[0]


def test_a_clumsy_right_answer_must_not_earn_more_than_the_plain_one():
    plain = earned(True, answer=1.0, own=0.1, length=-0.5)
    found = refusals([tried({"very long": earned(True, answer=1.0, own=0.9, length=-1.0)}, right_answer=plain)])
    assert found == ["the probe `very long` earns 1.9; the plain correct answer earns 1.1: 0.8 more, most of it by the "
                     "reward own"]
    # Shorter than worked steps, and the length is not what it is a probe of.
    short = {"answer repeated": earned(True, answer=1.0, own=0.1, length=-0.1)}
    assert refusals([tried(short, right_answer=plain)]) == []


def test_right_by_chance_is_no_cheat_and_the_answer_without_steps_is_none():
    lucky = earned(True, answer=1.0, own=5.0)
    assert refusals([tried({"prompt copied": lucky, "answer without steps": lucky},
                           right_answer=earned(True, answer=1.0, own=0.0))]) == []


def test_groups_without_spread_are_counted_and_said():
    equal, mixed = tried({}, [WRONG, WRONG]), tried({}, [WRONG, RIGHT])
    assert equal_reward_groups([equal, mixed]) == 1
    assert warnings([equal, mixed], 8) == []
    assert warnings([equal] * 2, 8) == [
        "2 of 2 groups have equal rewards: nothing to learn; no sample is correct: use easier prompts, or imitate "
        "traces first (algorithm.name=sft)"]
    assert warnings([tried({}, [RIGHT, RIGHT])], 8)[0].endswith("every sample is correct: use harder prompts")
    assert "2 of 3 groups have equal rewards: little to learn; a larger algorithm.group" in warnings(
        [equal, tried({}, [RIGHT, RIGHT]), mixed], 8)[0]


def test_cut_off_samples_and_lost_answers_are_said():
    cut = earned(truncated=True, answer=0.0)
    assert "1 of 2 completions were cut off at algorithm.max_new_tokens (8)" in warnings(
        [tried({}, [cut, earned(True, answer=1.0)])], 8)[0]
    lost = tried({}, right_answer=earned(answer=0.0))
    assert warnings([lost], 8)[0].startswith("the expected answer of 1 of 1 prompts (q) is not found again")


def test_a_lost_answer_is_no_measure():
    probes = {"empty": earned(answer=0.0), "answer repeated": earned(True, answer=1.0)}
    assert refusals([tried(probes, right_answer=earned(answer=0.0))]) == []
