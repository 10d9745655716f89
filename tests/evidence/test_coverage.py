"""Which splices a draw finds: by hand, and by counting every draw and every place."""

from fractions import Fraction
from itertools import combinations

import pytest

from workings.evidence.replay.answer_selection import AnswerPopulation, AnswerSelection
from workings.evidence.replay.coverage import choose_numbers, is_enough, probability_above, sentences, share_of
from workings.evidence.replay.step_selection import StepRange, StepSelection


def test_hypergeometric_by_hand() -> None:
    # Of 5 two are wrong, two are drawn: 10 pairs, of which 3 have no wrong one and 1 has both.
    assert probability_above(0, population=5, wrong=2, drawn=2) == 7 / 10
    assert probability_above(1, population=5, wrong=2, drawn=2) == 1 / 10
    assert probability_above(0, population=5, wrong=0, drawn=2) == 0.0
    assert probability_above(2, population=5, wrong=5, drawn=2) == 0.0
    assert probability_above(0, population=5, wrong=4, drawn=2) == 1.0
    assert probability_above(0, population=5, wrong=1, drawn=5) == 1.0


def test_a_seed_draws_the_same_everywhere_and_evenly() -> None:
    assert choose_numbers(17, "steps", 10, 3) == [4, 5, 7]
    assert choose_numbers(17, "answers", 10, 3) != choose_numbers(18, "answers", 10, 3)
    assert choose_numbers(0, "steps", 4, 4) == [0, 1, 2, 3]
    times = [sum(number in choose_numbers(seed, "steps", 5, 2) for seed in range(2000)) for number in range(5)]
    assert all(abs(each - 800) < 4 * (2000 * 0.4 * 0.6) ** 0.5 for each in times), "within four deviations"


def test_equal_stretches_by_hand() -> None:
    # Five stretches of ten steps; the last is always taken, and two of the other four: six draws.
    draw = StepSelection.for_confidence([0, 10, 20, 30, 40], 50, longest=None, tampered_steps=10, confidence=0.5,
                                        seed=1)
    assert (len(draw.selected), draw.selected[-1], draw.ends_at_states) == (3, StepRange(start=40, end=50), True)
    assert draw.replayed == 30
    assert draw.detection_probability(1) == draw.detection_probability(10) == 0.5, "one stretch is met"
    assert draw.detection_probability(11) == draw.detection_probability(20) == pytest.approx(5 / 6), \
        "two are met: one draw of six misses both"
    assert draw.detection_probability(21) == 1.0
    # One step at each of 50 places: 40 with a half, 10 in the last stretch with certainty.
    assert draw.mean_detection_probability(1) == pytest.approx(0.6)
    assert draw.joint == 0.5
    assert [draw.shortest(level) for level in (0.5, 0.8, 0.99)] == [1, 11, 21]
    assert sum(last - first + 1 for first, last in draw.not_replayed()) == 20


def counted(draw: StepSelection, length: int) -> tuple[float, float]:
    """Worst and mean chance over all places, from all draws."""
    always, last = draw.required, draw.step_count
    free = [each for each in draw.ranges if each != always]
    count = len(draw.selected) - (always is not None)
    draws = [[*some, *([always] if always else [])] for some in combinations(free, count)]
    taken = [{step for each in draw for step in range(each.start + 1, each.end + 1)} for draw in draws]
    chances = [Fraction(sum(not steps.isdisjoint(range(place, place + length)) for steps in taken), len(draws))
               for place in range(1, last - length + 2)]
    return float(min(chances)), float(sum(chances) / len(chances))


@pytest.mark.parametrize(("states", "last", "longest"), [
    ([0, 7, 9, 20], 31, None), ([0, 5, 10, 15, 20], 24, None), ([0, 7, 9, 20], 31, 4), ([0, 30], 31, 10),
    ([0], 9, None)])
def test_unequal_stretches_against_every_draw_and_place(states: list[int], last: int, longest: int | None) -> None:
    for confidence in (0.01, 0.4, 0.7, 0.999):
        draw = StepSelection.for_confidence(states, last, longest=longest, tampered_steps=6, confidence=confidence,
                                            seed=3)
        for length in range(1, last + 1):
            worst, mean = counted(draw, length)
            assert draw.detection_probability(length) == pytest.approx(worst)
            assert draw.mean_detection_probability(length) == pytest.approx(mean)
        assert draw.detection_probability(6) >= confidence or len(draw.selected) == len(states), \
            "all, where that is not enough"


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_a_few_steps_behind_one_state(steps: int) -> None:
    states, last = [0, 12, 15, 40], 41
    draw = StepSelection.for_step_count(states, last, steps, seed=5)
    assert [each.start for each in draw.ranges] == [0, 12, 15], "one step alone is not drawn"
    assert draw.replayed == min(steps, last - draw.selected[0].start)
    for length in range(1, last + 1):
        worst, mean = counted(draw, length)
        assert draw.detection_probability(length) == pytest.approx(worst)
        assert draw.mean_detection_probability(length) == pytest.approx(mean)
    assert (draw.joint, draw.shortest(0.99)) == (0.0, draw.shortest(0.999))
    assert StepSelection.for_step_count([0], 1, 10, seed=5).replayed == 1


def test_answers_by_hand() -> None:
    ten = AnswerPopulation(unit="eval/items", items=10, samples=1, batch=1)
    draw = AnswerSelection(evaluations=(ten,), batch_counts=(4,), required_share=1.0)
    assert draw.detection_probability(0, 1) == 0.4
    assert draw.detection_probability(0, 2) == pytest.approx(1 - 70 / 210), "C(8,4) of C(10,4) miss both"
    # At least nine tenths have to be the same: of ten one may differ, of four none.
    assert AnswerSelection(evaluations=(ten,), batch_counts=(4,), required_share=0.9).detection_probability(0, 1) == 0.4
    assert AnswerSelection(evaluations=(ten,), batch_counts=(10,), required_share=0.9).detection_probability(0,
                                                                                                             1) == 0.0
    assert AnswerSelection(evaluations=(ten,), batch_counts=(10,), required_share=0.9).detection_probability(0,
                                                                                                             2) == 1.0
    # In batches of four, of which the last has two, a forger fills as few as possible.
    batches = AnswerPopulation(unit="eval/items", items=10, samples=1, batch=4)
    one_batch = AnswerSelection(evaluations=(batches,), batch_counts=(1,), required_share=1.0)
    assert one_batch.detection_probability(0, 4) == pytest.approx(1 / 3)
    assert one_batch.detection_probability(0, 5) == pytest.approx(2 / 3)
    assert [batches.batches_for(items) for items in (1, 2, 3, 6, 7, 99)] == [1, 1, 2, 2, 3, 3]


def test_as_many_answers_as_a_confidence_needs() -> None:
    asked = AnswerPopulation(unit="eval/items", items=100, samples=1, batch=1)
    draw = AnswerSelection.for_confidence([asked], 1.0, tampered_share=0.1, confidence=0.95)
    # By hand: 90!/(90-d)! over 100!/(100-d)! falls below 0.05 at d = 25 (0.0476; 24: 0.0552).
    assert draw.batch_counts == (25,)
    # A tenth may differ by itself, so what is to be found is above it: 20 invented ones.
    loose = AnswerSelection.for_confidence([asked], 0.9, tampered_share=0.1, confidence=0.95)
    assert loose.to_json(0.1)[0]["invented"] == 20
    assert loose.to_json(0.1)[0]["found"] >= 0.95
    assert 25 < loose.batch_counts[0] < 100
    several = AnswerSelection.for_confidence([asked, AnswerPopulation(unit="eval/more", items=3, samples=4, batch=1)],
                                             1.0, 0.1, 0.95)
    assert several.batch_counts == (25, 3)
    assert AnswerSelection.for_confidence([], 1.0, 0.1, 0.95).to_json(0.1) == []


def test_a_share_is_rounded_up() -> None:
    assert [share_of(count, 0.1) for count in (1, 10, 11, 30, 450)] == [1, 1, 2, 3, 45]


def test_what_is_said() -> None:
    draw = StepSelection.for_confidence([0, 10, 20, 30, 40], 50, longest=None, tampered_steps=10, confidence=0.5,
                                        seed=1)
    answers = AnswerSelection.for_item_count([AnswerPopulation(unit="eval/items", items=10, samples=1, batch=1)], 1.0,
                                             4)
    facts = {"seed": 1, "steps": draw.to_json(10), "answers": answers.to_json(0.1)}
    told = sentences(facts)
    assert told[0] == "seed 1: 30 of 50 steps taken again, 3 of 5 stretches behind kept states"
    # Places 1, 11, 21 and 31 meet one of four stretches, ten meet the last one, the other 27 meet two.
    assert told[1] == ("10 wrong steps in a row: found with probability 0.500 wherever they are (0.841 on average); "
                       "1 or more with 0.5, 21 or more with 0.95, 21 or more with 0.99")
    assert told[-1] == ("eval/items: 4 of 10 items asked again; invented answers to 1 of them: found with probability "
                        "0.400")
    assert is_enough(facts, 0.4)
    assert not is_enough(facts, 0.5)
