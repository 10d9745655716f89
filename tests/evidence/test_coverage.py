"""Which splices a draw finds: by hand, and by counting every draw and every place."""

from fractions import Fraction
from itertools import combinations

import pytest

from workings.evidence.replay.answer_selection import AnswerDraw, DrawnUnit
from workings.evidence.replay.coverage import chosen, is_enough, more_than, sentences, share_of
from workings.evidence.replay.step_selection import StepDraw, Stretch


def test_hypergeometric_by_hand() -> None:
    # Of 5 two are wrong, two are drawn: 10 pairs, of which 3 have no wrong one and 1 has both.
    assert more_than(0, population=5, wrong=2, drawn=2) == 7 / 10
    assert more_than(1, population=5, wrong=2, drawn=2) == 1 / 10
    assert more_than(0, population=5, wrong=0, drawn=2) == more_than(2, population=5, wrong=5, drawn=2) == 0.0
    assert more_than(0, population=5, wrong=4, drawn=2) == more_than(0, population=5, wrong=1, drawn=5) == 1.0


def test_a_seed_draws_the_same_everywhere_and_evenly() -> None:
    assert chosen(17, "steps", 10, 3) == [4, 5, 7]
    assert chosen(17, "answers", 10, 3) != chosen(18, "answers", 10, 3)
    assert chosen(0, "steps", 4, 4) == [0, 1, 2, 3]
    times = [sum(number in chosen(seed, "steps", 5, 2) for seed in range(2000)) for number in range(5)]
    assert all(abs(each - 800) < 4 * (2000 * 0.4 * 0.6) ** 0.5 for each in times), "within four deviations"


def test_equal_stretches_by_hand() -> None:
    # Five stretches of ten steps; the last is always taken, and two of the other four: six draws.
    draw = StepDraw.confident([0, 10, 20, 30, 40], 50, longest=None, splice=10, confidence=0.5, seed=1)
    assert (len(draw.drawn), draw.drawn[-1], draw.ends_at_states) == (3, Stretch(start=40, end=50), True)
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


def counted(draw: StepDraw, length: int) -> tuple[float, float]:
    """Worst and mean chance over all places, from all draws."""
    always, last = draw.always, draw.last
    free = [each for each in draw.stretches if each != always]
    count = len(draw.drawn) - (always is not None)
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
        draw = StepDraw.confident(states, last, longest=longest, splice=6, confidence=confidence, seed=3)
        for length in range(1, last + 1):
            worst, mean = counted(draw, length)
            assert draw.detection_probability(length) == pytest.approx(worst)
            assert draw.mean_detection_probability(length) == pytest.approx(mean)
        assert draw.detection_probability(6) >= confidence or len(draw.drawn) == len(states), \
            "all, where that is not enough"


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_a_few_steps_behind_one_state(steps: int) -> None:
    states, last = [0, 12, 15, 40], 41
    draw = StepDraw.some(states, last, steps, seed=5)
    assert [each.start for each in draw.stretches] == [0, 12, 15], "one step alone is not drawn"
    assert draw.replayed == min(steps, last - draw.drawn[0].start)
    for length in range(1, last + 1):
        worst, mean = counted(draw, length)
        assert draw.detection_probability(length) == pytest.approx(worst)
        assert draw.mean_detection_probability(length) == pytest.approx(mean)
    assert (draw.joint, draw.shortest(0.99)) == (0.0, draw.shortest(0.999))
    assert StepDraw.some([0], 1, 10, seed=5).replayed == 1


def test_answers_by_hand() -> None:
    ten = DrawnUnit(unit="eval/items", items=10, samples=1, batch=1)
    draw = AnswerDraw(evaluations=(ten,), drawn=(4,), same=1.0)
    assert draw.detection_probability(0, 1) == 0.4
    assert draw.detection_probability(0, 2) == pytest.approx(1 - 70 / 210), "C(8,4) of C(10,4) miss both"
    # At least nine tenths have to be the same: of ten one may differ, of four none.
    assert AnswerDraw(evaluations=(ten,), drawn=(4,), same=0.9).detection_probability(0, 1) == 0.4
    assert AnswerDraw(evaluations=(ten,), drawn=(10,), same=0.9).detection_probability(0, 1) == 0.0
    assert AnswerDraw(evaluations=(ten,), drawn=(10,), same=0.9).detection_probability(0, 2) == 1.0
    # In batches of four, of which the last has two, a forger fills as few as possible.
    batches = DrawnUnit(unit="eval/items", items=10, samples=1, batch=4)
    assert AnswerDraw(evaluations=(batches,), drawn=(1,), same=1.0).detection_probability(0, 4) == pytest.approx(1 / 3)
    assert AnswerDraw(evaluations=(batches,), drawn=(1,), same=1.0).detection_probability(0, 5) == pytest.approx(2 / 3)
    assert [batches.drawn_for(items) for items in (1, 2, 3, 6, 7, 99)] == [1, 1, 2, 2, 3, 3]


def test_as_many_answers_as_a_confidence_needs() -> None:
    asked = DrawnUnit(unit="eval/items", items=100, samples=1, batch=1)
    draw = AnswerDraw.confident([asked], 1.0, splice=0.1, confidence=0.95)
    # By hand: 90!/(90-d)! over 100!/(100-d)! falls below 0.05 at d = 25 (0.0476; 24: 0.0552).
    assert draw.drawn == (25,)
    # A tenth may differ by itself, so what is to be found lies above it: 20 invented ones.
    loose = AnswerDraw.confident([asked], 0.9, splice=0.1, confidence=0.95)
    assert loose.facts(0.1)[0]["invented"] == 20
    assert loose.facts(0.1)[0]["found"] >= 0.95
    assert 25 < loose.drawn[0] < 100
    several = AnswerDraw.confident([asked, DrawnUnit(unit="eval/more", items=3, samples=4, batch=1)], 1.0, 0.1, 0.95)
    assert several.drawn == (25, 3)
    assert AnswerDraw.confident([], 1.0, 0.1, 0.95).facts(0.1) == []


def test_a_share_is_rounded_up() -> None:
    assert [share_of(count, 0.1) for count in (1, 10, 11, 30, 450)] == [1, 1, 2, 3, 45]


def test_what_is_said() -> None:
    draw = StepDraw.confident([0, 10, 20, 30, 40], 50, longest=None, splice=10, confidence=0.5, seed=1)
    answers = AnswerDraw.some([DrawnUnit(unit="eval/items", items=10, samples=1, batch=1)], 1.0, 4)
    facts = {"seed": 1, "steps": draw.facts(10), "answers": answers.facts(0.1)}
    told = sentences(facts)
    assert told[0] == "seed 1: 30 of 50 steps taken again, 3 of 5 stretches behind kept states"
    # Places 1, 11, 21 and 31 meet one of four stretches, ten meet the last one, the other 27 meet two.
    assert told[1] == ("10 wrong steps in a row: found with probability 0.500 wherever they lie (0.841 on average); "
                       "1 or more with 0.5, 21 or more with 0.95, 21 or more with 0.99")
    assert told[-1] == ("eval/items: 4 of 10 items asked again; invented answers to 1 of them: found with probability "
                        "0.400")
    assert is_enough(facts, 0.4)
    assert not is_enough(facts, 0.5)
