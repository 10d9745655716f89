"""Which checkpoint is the best one, and when patience ends."""

import pytest

from workings.evaluation.comparison.kept_checkpoint import KeptCheckpoint
from workings.record.best_checkpoint import best_checkpoint

BEST = {"keep": "best", "measure": "loss", "every_steps": 2, "keep_last": 1, "patience": 2}


def lines(field: str, *values: float) -> list[dict[str, object]]:
    """Lines of steps 1, 2, …; a line without a value for each step of an odd number."""
    return [{"step": step} | ({field: values[step // 2 - 1]} if step % 2 == 0 else {})
            for step in range(1, 2 * len(values) + 1)]


@pytest.mark.parametrize(("values", "step", "since", "ends"), [
    ((3.0,), 2, 0, False), ((3.0, 2.0), 4, 0, False), ((3.0, 4.0), 2, 1, False), ((3.0, 3.0, 3.0), 2, 2, True),
    ((3.0, 4.0, 2.0, 5.0, 6.0), 6, 2, True)])
def test_the_earliest_of_equal_ones_is_the_best(values, step, since, ends):
    best = best_checkpoint(BEST, lines("evaluation_loss", *values), 100)
    assert (best.step, best.since, best.ends_the_run) == (step, since, ends)
    # The other way round for a share of right answers.
    right = best_checkpoint(BEST | {"measure": "accuracy"}, lines("held_out_score", *(-x for x in values)), 100)
    assert (right.step, right.since, right.ends_the_run) == (step, since, ends)


def test_only_saved_steps_count_and_patience_may_be_endless():
    log = lines("evaluation_loss", 3.0, 1.0, 2.0, 5.0)
    assert best_checkpoint(BEST | {"every_steps": 6}, log, 8).step == 6
    assert best_checkpoint(BEST | {"every_steps": 6}, log, 8).measured == 2  # the last step is saved as well
    assert not best_checkpoint(BEST | {"patience": 0}, log, 100).ends_the_run
    assert best_checkpoint(BEST | {"keep": "last"}, log, 8) is None
    assert best_checkpoint(BEST, [{"step": 1}], 8) is None


def test_how_far_best_is_noise():
    def kept(first, last):
        log = [{"step": 2 * at, "held_out_score": marks.count("1") / len(marks), "held_out_right": marks}
               for at, marks in ((1, first), (2, last))]
        return KeptCheckpoint.of(best_checkpoint(BEST | {"measure": "accuracy"}, log, 100),
                                 [str(number) for number in range(len(first))])

    little = kept("1" * 21 + "0" * 19, "1" * 20 + "0" * 20)
    assert "0 is inside, so that no difference is shown" in little.sentence
    assert little.facts()["interval"]["low"] < 0 < little.facts()["interval"]["high"]
    much = kept("1" * 40, "0" * 40)
    assert "0 is inside" not in much.sentence
    assert much.facts()["interval"]["low"] > 0
    last = kept("0" * 40, "1" * 40)
    assert last.sentence.endswith("is the best of 2, and it is the last one")
    assert "absent" in last.facts()["interval"]
    loss = KeptCheckpoint.of(best_checkpoint(BEST, lines("evaluation_loss", 1.0, 2.0), 100), [])
    assert "without the rows needed for an interval" in loss.sentence
