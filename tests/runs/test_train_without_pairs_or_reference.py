"""Runs of KTO, ORPO and SimPO: they learn, are replayed, and fakes are found.

Resuming, adapters and the other engine do not depend on the objective of a run of preferences: see
`test_train_pairs.py`.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import killed
from tests.runs.replayed import verified_by_replaying
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.data.generators import addition
from workings.data.preferences import Verdict
from workings.data.row_fields import lines_bytes
from workings.data.traces import completion_text
from workings.evidence.verify import verify
from workings.runs.train import train

pytestmark = pytest.mark.slow
WAYS = ("kto", "orpo", pytest.param("simpo", marks=pytest.mark.full))
METRICS = "train/metrics.jsonl"


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


@pytest.fixture(scope="module", params=WAYS)
def begun(request, tmp_path_factory):
    """The name of the way, and its run."""
    folder, way = tmp_path_factory.mktemp(request.param), request.param
    recipe = write_verdicts(folder) if way == "kto" else killed.write_pairs(folder)
    words = [f"algorithm={{name: {way}, beta: 0.5}}", "training.learning_rate=0.01"]
    return way, train(str(recipe), folder / "run", words).run


def test_the_straight_run_verifies_and_learns(begun):
    name, straight = begun
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


def test_steps_are_taken_again_and_wrong_ones_differ(begun):
    """Level 3."""
    name, straight = begun
    verified_by_replaying(straight, ["seed", "learning_rate", "rows", "pair", *["reference"] * (name == "kto")],
                          steps=2)


def test_fakes_are_found(begun, tmp_path):
    fakes = {"accuracy": 0.1, "loss": -0.2} | (
        {"implied_reward": 0.3, "log_prob": -5.0, "drift": -1e3} if begun[0] == "kto" else
        {"margin": 0.3, "chosen_reward": 0.3, "rejected_log_prob": -0.5})
    check = "recompute.implied_rewards"
    for name, change in fakes.items():
        forged = tmp_path / name
        shutil.copytree(begun[1], forged)

        def edit(rows, name=name, change=change):
            # The first step's numbers are known to the digit; a later one is held to the others alone.
            line = rows[0 if name == "loss" else 3]
            line[name] = line[name] - 9 if name == "loss" and begun[0] != "kto" else line[name] + change
            return rows

        reseal.edit_lines(forged / METRICS, edit)
        reseal.reseal(forged)
        assert check in failed(forged), (name, failed(forged))
    if begun[0] == "kto":
        forged = shutil.copytree(begun[1], tmp_path / "turned round")
        reseal.edit_lines(forged / "data/rows.jsonl", lambda rows: [
            {**rows[0], "id": rows[0]["id"].replace("/wrong", "/other")}, *rows[1:]])
        reseal.reseal(forged)
        assert "consistency.preferences" in failed(forged)


@pytest.mark.parametrize(("words", "said"), [
    (("algorithm={name: kto}", "batch.micro_batch=2"), "batch.micro_batch=4"),
    (("algorithm={name: dpo}",), "holds no preference pairs"),
    (("algorithm={name: sft}",), "algorithm.name=kto, if the recipe is to learn from these verdicts"),
])
def test_verdicts_are_refused_where_they_do_not_belong(tmp_path, words, said):
    train_refuses(write_verdicts(tmp_path), tmp_path / "run", words, said)


def test_verdicts_of_one_prompt_are_refused(tmp_path):
    recipe = write_verdicts(tmp_path)
    lines = [json.loads(line) | {"prompt": "1 + 1?"} for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    (tmp_path / "verdicts.jsonl").write_bytes(lines_bytes(lines))
    train_refuses(recipe, tmp_path / "run", ["algorithm={name: kto}"], "all 9 verdicts have the same prompt")


def test_pairs_in_place_of_verdicts(tmp_path):
    train_refuses(killed.write_pairs(tmp_path), tmp_path / "run", ["algorithm={name: kto}", "batch.micro_batch=4"],
                  "algorithm.name=dpo, if the file holds pairs")
