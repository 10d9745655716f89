"""Held-out items next to rewards: in the lines, and the same after a stop."""

import pytest

from tests.runs import rewarded
from workings.record import jsonl
from workings.record.layout import EVENTS
from workings.record.metrics import TIME_AND_MEMORY
from workings.record.reader import RunRecord
from workings.runs.attempt import BEFORE
from workings.runs.train import train

SECONDS = {*TIME_AND_MEMORY, "drawing_seconds"}


def lines(run):
    return [{key: value for key, value in line.items() if key not in SECONDS} for line in RunRecord.open(run).metrics()]


@pytest.mark.children
def test_a_run_that_was_stopped_has_the_same_lines(tmp_path, monkeypatch):
    recipe, words = str(rewarded.write(tmp_path / "asked")), ["engine=torch"]
    straight = train(recipe, tmp_path / "straight", words).run
    stopped_at = []

    class Stop:
        """Asks to stop before the third step."""

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            pass

        @property
        def requested(self):
            stopped_at.append(1)
            return len(stopped_at) == 3
    with monkeypatch.context() as patch:
        patch.setattr("workings.runs.train.StopRequest", Stop)
        assert train(recipe, tmp_path / "run", words).status == "interrupted"
    result = train(recipe, tmp_path / "run", words, resume=True)
    assert lines(result.run) == lines(straight)
    looks = [line for line in RunRecord.open(result.run).metrics() if "held_out_right" in line]
    assert [(line["step"], line["held_out_items"], len(line["held_out_right"])) for line in looks] == [
        (2, 6, 6), (4, 6, 6)]
    assert [event["kind"] for event in jsonl.read(result.run / EVENTS)[0]].count(BEFORE) == 1
