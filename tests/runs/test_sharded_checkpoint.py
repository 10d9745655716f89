"""`checkpoint.sharded`: the same run with its tensors in shards, read by everything that reads a checkpoint."""

import json
import shutil
from pathlib import Path

import pytest

from tests.distributed.killing import contents
from tests.distributed.tiny_recipe import RECIPE
from tests.engines.tiny import same_tensors
from tests.evidence.reseal import edit_json, recommit, reseal
from tests.runs.runs_helpers import train_refuses, write_recipe
from workings.config.load import load_recipe
from workings.errors import RecordError, RequestError
from workings.evidence.replay.comparison import wrong_steps
from workings.evidence.verify import verify
from workings.publish.export import export_run
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate

WORDS = ("batch.micro_batch=2", "training.steps=6", "checkpoint.every_steps=2", "checkpoint.keep_last=2",
         "evaluation.every_steps=6", "evaluation.base=false", "model.shape.layers=1")
SHARD = "model.shard_00000_of_00001.safetensors"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """A run with whole files, and the same run in shards, stopped after three steps and resumed."""
    folder = tmp_path_factory.mktemp("runs")
    recipe, sharded = str(write_recipe(folder, RECIPE)), (*WORDS, "checkpoint.sharded=true")
    train_and_evaluate(recipe, folder / "whole", WORDS)
    stopped = train(recipe, folder / "sharded", sharded, on_step=lambda line: line["step"] < 3)
    assert stopped.status == "interrupted"
    del stopped
    assert train_and_evaluate(recipe, folder / "sharded", sharded, resume=True).training.status == "complete"
    return folder / "whole", folder / "sharded"


def test_a_stopped_and_resumed_run_in_shards_has_the_bits_of_one_with_whole_files(runs) -> None:
    whole, sharded = (contents(run) for run in runs)
    assert sharded["answers"] == whole["answers"]
    assert [line["loss"] for line in sharded["metrics"]] == [line["loss"] for line in whole["metrics"]]
    for step in ("step_000004", "step_000006"):
        first, second = (run / "checkpoints" / step for run in runs)
        assert sorted(path.name for path in second.iterdir()) == [
            "COMMIT.json", SHARD, "optimizer.shard_00000_of_00001.safetensors", "state.json"]
        same_tensors(first, second, count=1)


def test_it_verifies_and_replays(runs) -> None:
    found = verify(runs[1])
    assert found.failed == 0
    assert any(check.id == "consistency.tensors" and "tensors each in 4 files" in check.text for check in found.checks)
    facts = replay_run(runs[1], ReplayRequest(seed=1))
    assert wrong_steps(facts) == []
    assert facts["weights"]["files_identical"] == facts["weights"]["files"] == 2


def test_its_export_is_the_one_of_whole_files(runs, tmp_path: Path) -> None:
    exported = [export_run(run, tmp_path / run.name) for run in runs]
    assert exported[0].files["model.safetensors"] == exported[1].files["model.safetensors"]
    assert not list((tmp_path / "sharded").glob("*shard_*"))


def test_it_teaches(runs, tmp_path: Path) -> None:
    recipe, teacher = str(write_recipe(tmp_path, RECIPE)), runs[1]
    student = train(recipe, tmp_path / "student", (
        *WORDS, "training.steps=1", f"tokenizer={teacher}/config/tokenizer",
        f"algorithm={{name: distill, teacher: {teacher}, teacher_precision: fp32, group: 2, max_new_tokens: 4}}")).run
    names = json.loads((student / "config" / "teacher.json").read_text())["weights"]
    assert [*names] == [f"checkpoints/step_000006/{SHARD}"]
    assert verify(student).failed == 0


def test_a_shard_that_is_missing_or_from_another_checkpoint_is_found(runs, tmp_path: Path) -> None:
    fake = shutil.copytree(runs[1], tmp_path / "fake")
    folder = fake / "checkpoints" / "step_000006"
    renamed = SHARD.replace("of_00001", "of_00002")
    (folder / SHARD).rename(folder / renamed)
    edit_json(folder / "COMMIT.json", lambda value: value | {"files": {
        renamed if name == SHARD else name: fact for name, fact in value["files"].items()}})
    recommit(folder)
    reseal(fake)
    found = verify(fake)
    said = {check.id: check.text for check in found.checks if check.verdict == "failed"}
    assert said == {"consistency.tensors": "model.safetensors has 1 shards that do not make 2"}
    with pytest.raises(RecordError, match="has 1 shards that do not make 2"):
        export_run(fake, tmp_path / "exported")


def test_what_cannot_shard_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    train_refuses(recipe, tmp_path / "run", ("checkpoint.sharded=true",),
                  "engine: unigram does not write sharded checkpoints")
    with pytest.raises(RequestError, match=r"checkpoint\.sharded: true with sampler\.name: vllm"):
        load_recipe(str(recipe), ("checkpoint.sharded=true", "sampler={name: vllm}", "method={name: lora, rank: 4}",
                             "algorithm={name: grpo, group: 4, max_new_tokens: 16}", "rewards=[{scorer: answer}]"))
