"""Batches made beside the step: the same ones, at most one early, and errors where the batch is taken."""

import pytest

from tests.data.test_rows_and_batches import batches
from workings.data.ahead import BatchesAhead
from workings.data.batches import Position
from workings.errors import RecordError


def test_begun_or_not_the_batches_are_the_same():
    source = batches([3, 4, 5, 6, 7, 8, 9], b=2)
    place = Position()
    with BatchesAhead(source) as ahead:
        for number in range(9):  # into the third epoch
            batch, after = source.at(place)
            drawn = ahead.take(place)
            if number % 3:
                ahead.begin(drawn.after)
            assert (drawn.batch.tokens == batch.tokens).all()
            assert (drawn.batch.weights == batch.weights).all()
            assert (drawn.after, drawn.digest) == (after, source.digest(batch))
            place = after


def test_what_was_begun_for_another_position_is_not_taken():
    source = batches([5] * 6, b=2)
    with BatchesAhead(source) as ahead:
        ahead.begin(Position(0, 1))
        assert ahead.take(Position(0, 2)).digest == source.digest(source.at(Position(0, 2))[0])


def test_an_error_comes_when_the_batch_is_taken():
    with BatchesAhead(batches([5] * 6, b=2)) as ahead:
        ahead.begin(Position(0, 99))
        with pytest.raises(RecordError, match="other data"):
            ahead.take(Position(0, 99))
