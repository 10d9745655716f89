"""Runs that learn from preference pairs: killed and resumed bit for bit, replayed, with adapters, on both engines."""

import json

import pytest

from tests.runs import killed
from tests.runs.replayed import CONTROLS, verified_by_replaying
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.data.batches import Position
from workings.evidence.verify import verify
from workings.record.layout import REFERENCE_LOG_PROBS
from workings.reports.html import write_report
from workings.runs.replay import reopen_run
from workings.runs.train import train

pytestmark = pytest.mark.slow
LORA = ("method={name: lora, rank: 4, dropout: 0.1}", "training.learning_rate=0.01")


@pytest.fixture(scope="module")
def begun(tmp_path_factory, start_forked):
    """The recipe, how children start, and a run that was never killed."""
    return killed.begin(killed.write_pairs(tmp_path_factory.mktemp("pairs")), (), start_forked)


def test_the_straight_run_verifies_and_prefers(begun):
    straight = begun[2]
    found = verify(straight)
    told = {check.id: check.text for check in found.checks}
    assert (found.failed, told["consistency.preferences"]) == (0, "9 pairs; 18 rows; 6 steps")
    assert told["recompute.implied_rewards"] == "12 means of rewards"
    lines = lines_of(straight)
    # Before the first update the model is the reference: nothing is preferred, and the loss is ln 2.
    assert lines[0]["loss"] == pytest.approx(0.6931472, abs=1e-5)
    assert lines[-1]["margin"] > lines[1]["margin"] > 0.0
    # Four updates of two pairs; the epoch of nine ends with one pair, next to padding.
    assert lines[4]["accuracy"] == 1.0
    assert lines[4]["supervised_tokens"] < lines[0]["supervised_tokens"]
    events = [json.loads(line) for line in (straight / "train" / "events.jsonl").read_text().splitlines()]
    assert [event["rows"] for event in events if event["kind"] == "reference"] == [18]


def test_a_report_draws_rewards_and_calls_no_objective_a_loss(begun, tmp_path):
    page = write_report(tmp_path / "page.html", [begun[2]]).read_text(encoding="utf-8")
    for title in ("Implied rewards of pairs", "Accuracy on pairs", "Log probability of completions"):
        assert title in page
    assert "Mean negative log likelihood" not in page


def test_killed_after_a_checkpoint_it_ends_bit_for_bit_the_same(begun):
    killed.assert_ends_alike(begun, (), "rename checkpoints/.step_000004")


def test_steps_are_taken_again_and_wrong_ones_differ(begun):
    """Level 3, from a checkpoint; from the first weights in `test_train_rewarded.py`."""
    verified_by_replaying(begun[2], [*CONTROLS, "pair", "reference"], steps=2)


def test_a_reference_that_said_something_else_is_found_by_replaying(begun):
    """Where all bits have to agree, the reference is asked again; what the record says does not count."""
    opened = reopen_run(begun[2])
    told, asked = (opened.recipe.algorithm.replay(opened, opened.recipe.seed, exact=exact) for exact in (False, True))
    assert told.compute is None
    state = opened.initial_state(opened.engine, opened.recipe.seed)
    said = asked.compute(state, Position())
    assert len(said) == 4
    assert said == {name: told.recorded[name] for name in said}


def test_adapters(begun, tmp_path):
    done = train(str(begun[0]), tmp_path / "run", [*LORA, "training.steps=3"])
    assert (done.status, verify(done.run).failed) == ("complete", 0)
    lines = lines_of(done.run)
    # The model below the adapters is the first model: the reference by which nothing has moved yet.
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-4)
    assert lines[2]["margin"] > 0
    rows = (done.run / REFERENCE_LOG_PROBS).read_text().splitlines()
    assert len(rows) == 12, "a run shorter than an epoch only needs its own rows"


def test_both_engines_say_the_same(begun, tmp_path):
    """The same weights from a folder."""
    killed.assert_engines_agree(begun[0], (), tmp_path, ("margin", "chosen_log_prob", "rejected_log_prob"))


@pytest.mark.parametrize(("words", "said"), [
    (("data.traces=addition",), "preference pairs:"),
    (("data.traces=traces.jsonl",), "holds no preference pairs"),
    (("algorithm={name: sft}",), "algorithm.name=dpo, if the recipe is to learn from these pairs"),
    (("evaluation.traces=pairs.jsonl",), "evaluation.traces=none, or a file of traces"),
    (("data.max_length=16", "data.buckets=[]"), "both completions inside the window"),
])
def test_data_of_another_kind_are_refused_before_anything_is_made(begun, tmp_path, words, said):
    (begun[0].parent / "traces.jsonl").write_text('{"id": "t", "prompt": "1+1?", "answer": "2", "steps": []}\n')
    train_refuses(begun[0], tmp_path / "run", words, said)
