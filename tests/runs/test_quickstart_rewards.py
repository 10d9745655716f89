"""The quickstart with rewards: its assembly with very few steps, what it says, and, in `make proof`, what it finds."""

import hashlib
import json
import runpy
from pathlib import Path

import pytest

from tests.evaluation.making import items, score
from workings.evaluation.comparison.compare import compare
from workings.record.reader import RunRecord
from workings.runs.quickstarts.tiny_rewards import IMITATION, RANDOM, REWARDS, START, Arm, RewardsQuickstartResult

ASKED = [f"{arm}_{what}" for arm in ("start", "rewards", "imitation", "random")
         for what in ("accuracy", "pass_at_1", "pass_at_8")] + ["p_value", "seconds", "runs", "sentence"]
FEW = """
import json, shutil, sys
from pathlib import Path
from workings.publish.export import export_run
from workings.runs.quickstarts import tiny_rewards as quickstart
asked, constant, imitating = [], quickstart.constant_rate, quickstart.imitating_arm
# As many seconds are hundreds of steps after so few updates, and more the busier the machine is.
quickstart.constant_rate = lambda training, steps: constant(training, asked.append(steps) or 8)
# All others begin with the first one's model.
quickstart.imitating_arm = lambda name, seed, words: imitating(
    name, seed, [*(["model.shape.layers=1"] if name == quickstart.START else []), *words])
out, said = Path(sys.argv[1]), []
def found():
    return quickstart.quickstart_rewards(out, sys.argv[2:], export=export_run, say=said.append,
                                         size=quickstart.Size(start_steps=8, prompts=100, items=4)).to_json()
first = found() | {"imitation_steps_of_as_many_seconds": list(asked)}
# As if it had been stopped between an arm and its samples.
for path in (out / "runs" / "rewards" / "eval" / "samples", out / "runs" / "random"):
    shutil.rmtree(path)
(out / "report.html").unlink()
print(json.dumps(first | {"again": found(), "said": said}))
"""


def result(folder: Path, right: dict[str, int]) -> RewardsQuickstartResult:
    asked = items(40)
    paths = {name: score(folder, name, asked, [k < count for k in range(40)]) for name, count in right.items()}
    arms = {name: Arm(run=path, steps=10, seconds=3.0, accuracy=right[name] / 40, pass_at_1=0.25, pass_at_8=0.5)
            for name, path in paths.items()}
    against = {name: compare(path, paths[REWARDS]) for name, path in paths.items() if name != REWARDS}
    return RewardsQuickstartResult(out=folder, arms=arms, against=against, algorithm="dr_grpo", seconds=1.0)


def test_what_is_told(tmp_path: Path) -> None:
    found = result(tmp_path, {START: 20, REWARDS: 30, IMITATION: 36, RANDOM: 18})
    told = found.to_json()
    assert set(ASKED) <= set(told)
    assert [told[f"{name}_accuracy"] for name in (START, REWARDS, IMITATION, RANDOM)] == [0.5, 0.75, 0.9, 0.45]
    assert told["against"][IMITATION]["verdict"] == "worse"
    # Said as it is, also where more imitation goes further.
    for words in ("from 50.0 % to 75.0 % right", "more imitation reached 90.0 %", "random rewards 45.0 %"):
        assert words in found.sentence
    assert found.sentence in found.text()


def test_a_wrong_override_leaves_nothing(workings, tmp_path):
    done = workings("quickstart", "--tiny", "--rewards", "training.stps=4", "--out", tmp_path / "out", check=False)
    assert done.returncode == 2
    assert "did you mean `training.steps`?" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_four_sealed_arms_from_one_start(run_forked, tmp_path):
    out = tmp_path / "quickstart"
    done = run_forked("-c", FEW, out, "training.steps=2", "training.warmup_steps=1", "batch.micro_batch=8",
                      "batch.accumulation=1", "algorithm.patience=100")
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(ASKED) <= set(told)
    runs = {name: RunRecord.open(out / "runs" / name) for name in (START, REWARDS, IMITATION, RANDOM)}
    assert [str(run.path) for run in runs.values()] == told["runs"]
    assert [told[f"{name}_steps"] for name in (START, REWARDS, IMITATION, RANDOM)] == [8, 2, 8, 1]
    seconds = {name: run.manifest.training_seconds for name, run in runs.items()}
    assert told["imitation_steps_of_as_many_seconds"] == [round(seconds[REWARDS] * 8 / seconds[START])]
    assert told["said"] == [f"{runs[name].path} is complete and is used as it is"
                            for name in (START, REWARDS, IMITATION)]
    assert {name: value for name, value in told["again"].items() if "seconds" not in name} == {
        name: told[name] for name in told["again"] if "seconds" not in name}
    # One checkpoint for all three, and the same questions.
    weights = {json.dumps(dict(runs[name].manifest.weight_digests)) for name in (REWARDS, IMITATION, RANDOM)}
    assert len(weights) == 1
    assert len({run.manifest.data_digests["items"] for run in runs.values()}) == 1
    assert {unit.path.name for unit in runs[REWARDS].evaluations()} == {"items", "samples"}
    assert (out / "report.html").stat().st_size > 10_000
    # Nothing that is learned from is asked, in either order.
    operands = {name: {frozenset(json.loads(line)["prompt"][8:-1].split("+"))
                       for line in (out / "data" / f"{name}.jsonl").read_text().splitlines()}
                for name in ("traces", "prompts", "items")}
    assert not operands["items"] & (operands["traces"] | operands["prompts"])
    # The random reward is that of the text alone.
    coin = runpy.run_path(str(out / "recipes" / "random_reward.py"))["coin"]
    texts = [f"text {number}" for number in range(200)]
    values = coin([""] * 200, texts)
    assert values == [hashlib.sha256(text.encode()).digest()[0] % 2 for text in texts]
    assert 60 < sum(values) < 140


@pytest.mark.full
def test_rewards_teach_what_random_ones_do_not(workings, tmp_path):
    done = workings("quickstart", "--tiny", "--rewards", "--out", tmp_path / "out", "--json",
                    environment={"XLA_FLAGS": ""})
    told = json.loads(done.stdout.splitlines()[-1])
    assert 0.30 <= told["start_accuracy"] <= 0.75
    assert told["rewards_accuracy"] >= told["start_accuracy"] + 0.25
    assert told["random_accuracy"] < told["start_accuracy"] + 0.05
    assert told["p_value"] < 1e-6
