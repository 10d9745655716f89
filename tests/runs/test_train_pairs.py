"""Runs that learn from preferences: killed and resumed bit for bit, replayed, with adapters, on both engines.

DPO for what does not depend on the objective; KTO, ORPO and SimPO for what does.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import killed
from tests.runs.replayed import CONTROLS, verified_by_replaying
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.data.batches import Position
from workings.data.generators import addition
from workings.data.preferences import Verdict
from workings.data.row_fields import lines_bytes
from workings.data.traces import completion_text
from workings.evidence.verify import verify
from workings.record.layout import REFERENCE_LOG_PROBS
from workings.reports.html import write_report
from workings.runs.replay import reopen_run
from workings.runs.train import train
from workings.ways.parts.replays import replay

pytestmark = pytest.mark.slow
OTHERS = ("kto", "orpo", pytest.param("simpo", marks=pytest.mark.full))
TORCH = ("engine=torch",)
LORA = ("method={name: lora, rank: 4, dropout: 0.1}", "training.learning_rate=0.01")


def write_verdicts(folder: Path) -> Path:
    """A recipe that learns from verdicts: of each sum a right completion or a wrong one."""
    traces, _ = addition.make(9, 1, seed=0)
    (folder / "verdicts.jsonl").write_bytes(lines_bytes(Verdict(
        id=trace.id, prompt=trace.prompt, label=number % 3 > 0,
        completion=completion_text(trace, "tags") if number % 3 else f"<answer>{int(trace.answer) + 1}</answer>"
    ).to_json() for number, trace in enumerate(traces)))
    path = folder / "verdicts.yaml"
    path.write_text(killed.RECIPE.replace("traces.jsonl", "verdicts.jsonl").replace("64}", "64, buckets: [48]}")
                    .replace("micro_batch: 2, accumulation: 2", "micro_batch: 4, accumulation: 1"))
    return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The recipe, and a run of PyTorch that was never killed; other runs here are of JAX."""
    return killed.begin(killed.write_pairs(tmp_path_factory.mktemp("pairs")), TORCH)


@pytest.fixture(scope="module", params=OTHERS)
def other(request, tmp_path_factory):
    """The name of another objective, and a run with it."""
    folder, way = tmp_path_factory.mktemp(request.param), request.param
    recipe = write_verdicts(folder) if way == "kto" else killed.write_pairs(folder)
    words = [f"algorithm={{name: {way}, beta: 0.5}}", "training.learning_rate=0.01"]
    return way, train(str(recipe), folder / "run", words).run


def test_the_straight_run_verifies_and_prefers(begun):
    straight = begun[1]
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
    page = write_report(tmp_path / "page.html", [begun[1]]).read_text(encoding="utf-8")
    for title in ("Implied rewards of pairs", "Accuracy on pairs", "Log probability of completions"):
        assert title in page
    assert "Mean negative log likelihood" not in page


def test_killed_after_a_checkpoint_it_ends_bit_for_bit_the_same(begun, start_forked):
    killed.assert_ends_alike(begun, TORCH, "rename checkpoints/.step_000004", start_forked)


def test_steps_are_taken_again_and_wrong_ones_differ(begun):
    """Level 3, from a checkpoint; from the first weights in `test_train_rewarded.py`."""
    verified_by_replaying(begun[1], [*CONTROLS, "pair", "reference"], steps=2)


def test_a_reference_that_said_something_else_is_found_by_replaying(begun):
    """Where all bits have to agree, the reference is asked again; what the record says does not count."""
    opened = reopen_run(begun[1])
    told, asked = (replay(opened, opened.recipe.seed, exact=exact) for exact in (False, True))
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


def test_runs_of_other_objectives_verify_learn_and_are_taken_again(other):
    name, straight = other
    found = verify(straight)
    told = {check.id: check.text for check in found.checks if check.verdict == "passed"}
    assert found.failed == 0, [check for check in found.checks if check.verdict == "failed"]
    lines = lines_of(straight)
    if name == "kto":
        assert told["consistency.preferences"] == "9 verdicts; 18 rows"
        assert told["recompute.implied_rewards"] == "6 steps"
        # Before the first update the model is the reference: every sigmoid is one half.
        assert lines[0]["loss"] == pytest.approx(0.5, abs=1e-5)
        assert lines[0]["implied_reward"] == pytest.approx(0, abs=1e-5)
    else:
        assert (told["consistency.preferences"], told["recompute.implied_rewards"]) == ("9 pairs", "6 steps")
        assert not (straight / "train/reference_log_probs.jsonl").exists()
    assert lines[-1]["loss"] < lines[0]["loss"]
    verified_by_replaying(straight, ["seed", "learning_rate", "rows", "pair", *["reference"] * (name == "kto")],
                          steps=2)


def test_fakes_are_found(other, tmp_path):
    fakes = {"accuracy": 0.1, "loss": -0.2} | (
        {"implied_reward": 0.3, "log_prob": -5.0, "drift": -1e3} if other[0] == "kto" else
        {"margin": 0.3, "chosen_reward": 0.3, "rejected_log_prob": -0.5})
    check = "recompute.implied_rewards"
    for name, change in fakes.items():
        forged = tmp_path / name
        shutil.copytree(other[1], forged)

        def edit(rows, name=name, change=change):
            # The first step's numbers are known to the digit; a later one is held to the others alone.
            line = rows[0 if name == "loss" else 3]
            line[name] = line[name] - 9 if name == "loss" and other[0] != "kto" else line[name] + change
            return rows

        reseal.edit_lines(forged / "train/metrics.jsonl", edit)
        reseal.reseal(forged)
        assert check in failed(forged), (name, failed(forged))
    if other[0] == "kto":
        forged = shutil.copytree(other[1], tmp_path / "turned round")
        reseal.edit_lines(forged / "data/rows.jsonl", lambda rows: [
            {**rows[0], "id": rows[0]["id"].replace("/wrong", "/other")}, *rows[1:]])
        reseal.reseal(forged)
        assert "consistency.preferences" in failed(forged)


@pytest.mark.parametrize(("write", "words", "said"), [
    (killed.write_pairs, ("data.traces=addition",), "preference pairs:"),
    (killed.write_pairs, ("data.traces=traces.jsonl",), "holds traces instead of preference pairs"),
    (killed.write_pairs, ("algorithm={name: sft}",), "algorithm.name=dpo, if the recipe is to learn from these pairs"),
    (killed.write_pairs, ("evaluation.traces=pairs.jsonl",), "evaluation.traces=none, or a file of traces"),
    (killed.write_pairs, ("data.max_length=16", "data.buckets=[]"), "both completions inside the window"),
    (killed.write_pairs, ("algorithm={name: kto}", "batch.micro_batch=4"),
     "algorithm.name=dpo, if the recipe is to learn from these pairs"),
    (write_verdicts, ("algorithm={name: kto}", "batch.micro_batch=2"), "batch.micro_batch=4"),
    (write_verdicts, ("algorithm={name: dpo}",), "holds verdicts instead of preference pairs"),
    (write_verdicts, ("algorithm={name: sft}",), "algorithm.name=kto, if the recipe is to learn from these verdicts"),
    (write_verdicts, ("algorithm={name: kto}", "data.traces=same.jsonl"), "all 9 verdicts have the same prompt"),
])
def test_data_of_another_kind_are_refused_before_anything_is_made(tmp_path, write, words, said):
    recipe = write(tmp_path)
    (tmp_path / "traces.jsonl").write_text('{"id": "t", "prompt": "1+1?", "answer": "2", "steps": []}\n')
    if write is write_verdicts:
        rows = map(json.loads, (tmp_path / "verdicts.jsonl").read_text().splitlines())
        (tmp_path / "same.jsonl").write_bytes(lines_bytes(row | {"prompt": "1 + 1?"} for row in rows))
    train_refuses(recipe, tmp_path / "run", words, said)
