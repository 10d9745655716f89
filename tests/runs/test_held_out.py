"""Held-out items next to rewards: in the lines, the same after a stop, and what they say at the end."""

import re

import pytest

from tests.runs import rewarded
from tests.runs.runs_helpers import write_recipe
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.evaluation.comparison.held_out_change import BEFORE, held_out_change
from workings.inputs.datasets import RunData
from workings.record import jsonl
from workings.record.layout import EVENTS, LOG
from workings.record.metrics import TIME_AND_MEMORY
from workings.record.reader import RunRecord
from workings.runs.prepare import TrainSetup
from workings.runs.train import train
from workings.scoring.items import Item

ITEMS = [Item(id=f"q{number}", prompt="?", expected_answer="1") for number in range(20)]
SECONDS = {*TIME_AND_MEMORY, "drawing_seconds"}


def change(first, last, rewards, before=None, items=ITEMS):
    lines = [{"step": step, "reward": reward} for step, reward in enumerate(rewards, 1)]
    lines[0] |= {"held_out_right": first}
    lines[-1] |= {"held_out_right": last}
    events = [] if before is None else [{"kind": "other"}, {"kind": BEFORE, "held_out_right": before}]
    return held_out_change([item.cluster for item in items], lines, events)


def test_a_reward_that_rises_alone_is_said():
    found = change("1" * 10 + "0" * 10, "1" * 11 + "0" * 9, [0.42, 0.5, 0.61])
    assert found.sentence == (
        "the reward rose from 0.42 to 0.61, these items show no change of the held-out score: "
        "+5.0 points [-11.9, +23.6] of 20 items, step 3 compared with step 1")
    assert found.difference.newly_right == 1


@pytest.mark.parametrize(("first", "last", "rewards", "said"), [
    ("0" * 20, "1" * 20, [0.1, 0.9], "rose from 0.10 to 0.90, and the held-out score rose too: +100.0 points"),
    ("1" * 20, "0" * 20, [0.1, 0.9], "rose from 0.10 to 0.90, the held-out score fell: -100.0 points"),
    ("0" * 20, "0" * 20, [0.9, 0.1], "fell from 0.90 to 0.10, these items show no change of the held-out score"),
    ("0" * 20, "1" * 20, [0.5, 0.5], "the reward stayed at 0.50, the held-out score rose"),
    ("0" * 20, "0" * 20, [0.001, 0.002], "the reward stayed at 0.00, these items show no change of the held-out score"),
])
def test_every_way_it_can_go(first, last, rewards, said):
    assert said in change(first, last, rewards).sentence


def test_the_look_before_the_first_step_is_the_one_compared_with():
    found = change("1" * 20, "1" * 20, [0.1] * 20, before="0" * 20)
    assert (found.step_before, found.step_after, found.difference.newly_right) == (0, 20, 20)
    # A tenth of 20 rollouts.
    assert change("0" * 20, "1" * 20, [0.0, 1.0, *[0.0] * 17, 1.0]).reward_before == 0.5


def test_items_of_one_cluster_count_once():
    items = [Item(id=f"q{number}", prompt="?", expected_answer="1", cluster="one") for number in range(20)]
    assert "no interval: " in change("0" * 20, "1" * 20, [0.1, 0.9], items=items).sentence


def test_nothing_is_said_of_one_look():
    assert held_out_change([], [{"step": 1, "reward": 0.5, "held_out_right": "1" * 20}], []) is None
    assert held_out_change([], [], [{"kind": BEFORE, "held_out_right": "1" * 20}]) is None


@pytest.mark.parametrize("word", ["evaluation.items_during_training=3", "evaluation.items_during_training=0"])
def test_watched_items_are_refused_where_nothing_is_rewarded(tmp_path, word):
    path = write_recipe(tmp_path)
    with pytest.raises(RequestError, match=r"evaluation\.items_during_training: \d with algorithm\.name: sft"):
        load_recipe(str(path), [word])
    assert load_recipe(str(path)).recipe.evaluation.items_during_training == 64


def test_watched_items_are_refused_without_items(tmp_path):
    path = rewarded.write(tmp_path)
    with pytest.raises(RequestError, match=r"evaluation\.items_during_training: 3 with neither"):
        load_recipe(str(path), ["evaluation={items_during_training: 3}"])


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
    said = [re.findall(r"^held out   .*", (run / LOG).read_text(), re.MULTILINE) for run in (straight, result.run)]
    assert said[0][-1] == said[1][-1]
    assert "of 6" in said[0][-1]
    assert [event["kind"] for event in jsonl.read(result.run / EVENTS)[0]].count(BEFORE) == 1


@pytest.mark.parametrize(("wanted", "watched"), [(0, 0), (64, 20)])
def test_as_many_are_watched_as_are_wanted(tmp_path, wanted, watched):
    setup = object.__new__(TrainSetup)
    loaded = load_recipe(str(rewarded.write(tmp_path)), [f"evaluation.items_during_training={wanted}"])
    vars(setup).update(loaded=loaded, data=RunData(traces=[], held_out=[], items=ITEMS, digests={}))
    assert len(setup.watched_items) == watched
