"""Pairs side by side in every batch, and what the reference says of them, asked once."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workings.config.data import DataConfig
from workings.config.load import load_recipe
from workings.data.batches import Batches, Position
from workings.data.epoch_plan import epoch_order
from workings.data.pair_rows import PairRows, log_prob_lines, read_log_prob_lines
from workings.data.rows import Row, RowSet
from workings.errors import RecordError, TrainingFailed
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import Preference
from workings.record import jsonl
from workings.record.layout import REFERENCE_LOG_PROBS
from workings.record.writer import RunWriter
from workings.ways.parts.row_data import ReferencedPairData, reference_log_probs_by_row, with_pair_signals

# Tokens of the chosen and the rejected row of each pair; the longer one decides the bucket.
LENGTHS = {"a": (4, 6), "b": (7, 3), "c": (12, 5), "d": (5, 5), "e": (9, 3)}


def rows() -> RowSet:
    """Two tokens of prompt each, and a first token that names the row."""
    found = []
    for pair, (name, lengths) in enumerate(LENGTHS.items()):
        for side, length in enumerate(lengths):
            mask = np.ones(length, np.uint8)
            mask[:2] = 0
            found.append(Row(f"{name}/{('chosen', 'rejected')[side]}", np.full(length, 10 * pair + side + 1, np.int32),
                             mask, "x"))
    return RowSet(tuple(found), (), 0, 12)


def batches(seed: int = 1, micro: int = 4, accumulation: int = 1) -> Batches:
    return Batches(PairRows(rows()), seed=seed, rows_per_micro_batch=micro, accumulation=accumulation,
                   data_config=DataConfig(traces="x", max_length=12, buckets=(8,)))


def test_the_order_is_that_of_the_pairs_ids() -> None:
    """Of five pairs three fit into 8 positions; with two pairs a batch the third one is left over."""
    found, order = batches(), [list(LENGTHS)[place] for place in epoch_order(list(LENGTHS), 1, 0)]
    short = [name for name in order if name in "abd"]
    long = [name for name in order if name in "ce"]
    expected = [(8, short[:2]), (12, long), (8, short[2:])]
    # Whole batches come in the order in which they were complete, and the rest comes last.
    expected[:2] = sorted(expected[:2], key=lambda each: order.index(each[1][-1]))
    assert found.batches_in_epoch(0) == 3
    for number, (length, names) in enumerate(expected):
        batch, _ = found.at(Position(0, number))
        assert batch.tokens.shape == (1, 4, length)
        ids = [name for sequence in found.row_ids(Position(0, number)) for name in sequence]
        assert ids == [f"{name}/{side}" for name in names for side in ("chosen", "rejected")]
        # What the engine is given: a pair's first tokens side by side, then padding.
        first = [10 * list(LENGTHS).index(name) + side + 1 for name in names for side in (0, 1)]
        assert batch.tokens[0, :, 0].tolist() == first + [0] * (4 - len(first))
        digests = {row.id: row.digest for row in rows().rows}
        assert found.digest(batch) == found.digest_at(Position(0, number), digests)
    assert found.shapes() == [(1, 4, 12), (1, 4, 8)]


class Says:
    """Finds every supervised token as likely as its place says."""

    def __init__(self) -> None:
        self.asked = 0

    def log_probs(self, state: Any, batch: Any) -> np.ndarray:
        self.asked += 1
        found: np.ndarray = -batch.loss_mask * batch.tokens / 16
        return found.astype(np.float32)


def test_the_reference_is_asked_about_every_row_once() -> None:
    engine, expected = Says(), {row.id: -row.supervised_tokens * int(row.tokens[0]) / 16 for row in rows().rows}
    assert reference_log_probs_by_row(engine, None, batches(), steps=100) == expected
    assert engine.asked == 3
    first = reference_log_probs_by_row(engine, None, batches(), steps=1)  # a run shorter than an epoch
    assert {name: expected[name] for name in first} == first
    assert len(first) == 4
    assert read_log_prob_lines(log_prob_lines(expected)) == expected


def test_a_batch_is_told_and_counts_pairs() -> None:
    found, last = batches(), Position(0, 2)
    said = {row.id: -float(number) for number, row in enumerate(rows().rows, start=1)}
    batch = with_pair_signals(found.at(last)[0], found.row_ids(last), said, Preference())
    ids = [name for sequence in found.row_ids(last) for name in sequence]
    assert len(ids) == 2  # one pair, next to padding
    assert (batch.signals[REFERENCE] * batch.loss_mask).sum(-1)[0].tolist() == [said[name] for name in ids] + [0, 0]
    assert (batch.divisor, batch.loss_mask.sum()) == (1.0, found.at(last)[0].loss_mask.sum())
    with pytest.raises(RecordError, match="no log probability"):
        with_pair_signals(found.at(last)[0], found.row_ids(last), {}, Preference())


def test_it_asks_at_the_first_step_and_reads_at_any_later_one(tmp_path: Path) -> None:
    model = Says()
    recipe = load_recipe("smoke-tiny", ["algorithm={name: dpo}", "seed=1", "batch={micro_batch: 4}",
                                        "training.steps=10", "data.max_length=12", "data.buckets=[8]"]).recipe
    data = ReferencedPairData(recipe=recipe, rows=rows(), devices=1)
    with closing(RunWriter.create(tmp_path / "run")) as writer:
        with data.experience(model, writer) as first, pytest.raises(RecordError, match="already taken 2 steps"):
            first.prepare(None, 2)
        first.prepare(None, 0)
        assert (model.asked, len(read_log_prob_lines(jsonl.read(writer.path(REFERENCE_LOG_PROBS))[0]))) == (3, 10)
        with data.experience(model, writer) as again:
            again.prepare(None, 2)
    assert model.asked == 3
    one, other = (each.next_batch(None, Position(0, 1), 2) for each in (first, again))
    np.testing.assert_array_equal(one.batch.signals[REFERENCE], other.batch.signals[REFERENCE])
    assert one.digest == other.digest


def test_a_log_probability_that_is_not_finite_ends_the_run() -> None:
    engine = SimpleNamespace(log_probs=lambda state, batch: np.full(batch.tokens.shape, np.nan, np.float32))
    with pytest.raises(TrainingFailed, match="is nan"):
        reference_log_probs_by_row(engine, None, batches(), 1)


@pytest.mark.parametrize("line", [{"id": "a"}, {"id": "a", "log_prob": True}, {"log_prob": -1.0}])
def test_lines_that_are_none_are_refused(line: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="line 2"):
        read_log_prob_lines([{"id": "b", "log_prob": -2.0}, line])
