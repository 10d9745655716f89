"""A run that learns every turn of the assistant: recorded turn by turn, verified, replayed, and hard to forge."""

import json
import shutil

import pytest

from tests.data.conversations import conversations, said_by_the_assistant
from tests.evidence.reseal import change_config, edit_lines, reseal
from tests.runs.runs_helpers import OTHER_PACKAGE, write_recipe
from workings.data.traces import Trace, write_items, write_traces
from workings.errors import RecordError
from workings.evidence.replay.comparison import wrong_steps
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate

TALKS = conversations(24)
WORDS = ["data.learn=all", "data.reasoning=answer_only", "data.max_length=128", "data.buckets=[]",
         "evaluation.traces=none", "evaluation.samples=0"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The recipe, and a run of it."""
    folder = tmp_path_factory.mktemp("every-turn")
    recipe = write_recipe(folder / "asked")
    write_traces(recipe.parent / "traces.jsonl", TALKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        return recipe, train(str(recipe), folder / "run", WORDS).run


@pytest.fixture
def recipe(trained):
    return trained[0]


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run, next to a copy of its data."""
    shutil.copytree(trained[0].parent, tmp_path / "asked")
    return shutil.copytree(trained[1], tmp_path / "run")


def verdict(run, name):
    return next((check.verdict, check.text) for check in verify(run).checks if check.id == name)


def test_it_records_every_turn_and_is_computed_again(run):
    rows = [json.loads(line) for line in (run / "data" / "rows.jsonl").read_text().splitlines()]
    for row, talk in zip(rows, TALKS, strict=True):
        turns = row.get("learned_turns", [[row["tokens"] - row["supervised_tokens"], row["tokens"]]])
        assert len(turns) == len(said_by_the_assistant(talk))
        assert sum(end - start for start, end in turns) == row["supervised_tokens"]
    # Twelve steps of eight rows are four epochs.
    assert RunRecord.open(run).manifest.supervised_tokens == 4 * sum(row["supervised_tokens"] for row in rows)
    assert verify(run).failed == 0
    assert "supervised tokens per epoch in 48 turns of the assistant" in (
        run / "train" / "training_log.txt").read_text()
    assert verdict(run, "consistency.rows")[0] == "passed"
    facts = replay_run(run, ReplayRequest())
    assert (wrong_steps(facts), len(facts["lines"])) == ([], 3)


def forged(run, change):
    """The run with another line of its row with three learned turns; ``change`` gives keys of the line."""
    def edit(rows):
        row = next(row for row in rows if len(row.get("learned_turns", ())) == 3)
        row |= change(row, *row["learned_turns"])
        return rows

    edit_lines(run / "data" / "rows.jsonl", edit)
    reseal(run)


@pytest.mark.parametrize("change", [
    lambda row, one, two, three: {"learned_turns": [[one[0] + 1, one[1]], [two[0] - 2, two[1]], three]},
    lambda row, one, two, three: {"learned_turns": [two, three]},
    lambda row, one, two, three: {"earlier_prompt_digests": row["earlier_prompt_digests"][:-1]},
    lambda row, one, two, three: {"learned_turns": [one, ["a", True], three]},
    lambda row, *turns: {"learned_turns": 3}])
def test_an_index_that_tells_other_turns_fails(run, change):
    forged(run, change)
    found, text = verdict(run, "consistency.rows")
    assert (found, "learned turns that do not add up" in text) == ("failed", True)


def test_a_recipe_that_learns_the_last_turn_has_no_others(run):
    change_config(run, lambda config: config | {"data": config["data"] | {"learn": "last"}})
    reseal(run)
    assert verdict(run, "consistency.rows")[0] == "failed"


def test_turns_that_add_up_and_are_others_are_found_when_the_rows_are_made_again(run):
    forged(run, lambda row, one, two, three: {"learned_turns": [[one[0] - 1, one[1]], [two[0] + 1, two[1]], three]})
    with pytest.raises(RecordError, match="has other learned turns than the data for"):
        replay_run(run, ReplayRequest())


def test_a_question_whose_answer_was_learned_in_an_earlier_turn_is_not_asked(recipe, tmp_path):
    write_items(recipe.parent / "items.jsonl", [Trace(id="q", prompt="what is  5+0?", steps=(), answer="5")])
    result = train_and_evaluate(str(recipe), tmp_path / "run", [*WORDS, "evaluation.max_new_tokens=2"])
    assert verdict(result.training.run, "consistency.disjoint")[0] == "failed"
