"""Batches made next to the step: the same ones, at most one early, and errors where the batch is taken."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from tests.data.making import batches
from workings.data.batches import Position
from workings.errors import RecordError
from workings.ways.parts.experience import RowExperience


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def test_begun_or_not_the_batches_are_the_same(thread: Executor) -> None:
    source = batches([3, 4, 5, 6, 7, 8, 9], b=2)
    place = Position()
    ahead = RowExperience(source)
    for number in range(9):  # into the third epoch
        batch, after = source.at(place)
        drawn = ahead.next_batch(None, place, 1)
        if number % 3:
            ahead.prefetch(drawn.after, thread)
        assert (drawn.batch.tokens == batch.tokens).all()
        assert (drawn.batch.loss_mask == batch.loss_mask).all()
        assert (drawn.after, drawn.digest) == (after, source.digest(batch))
        place = after


def test_what_was_begun_for_another_position_is_not_taken(thread: Executor) -> None:
    source = batches([5] * 6, b=2)
    ahead = RowExperience(source)
    ahead.prefetch(Position(0, 1), thread)
    assert ahead.next_batch(None, Position(0, 2), 1).digest == source.digest(source.at(Position(0, 2))[0])


def test_an_error_comes_when_the_batch_is_taken(thread: Executor) -> None:
    ahead = RowExperience(batches([5] * 6, b=2))
    ahead.prefetch(Position(0, 99), thread)
    with pytest.raises(RecordError, match="other data"):
        ahead.next_batch(None, Position(0, 99), 1)
