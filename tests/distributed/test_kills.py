"""Processes of a run that are killed: the other one says so and ends in order, and the run goes on to the same bit.

Two that nothing disturbs train and are asked as one is.
"""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.distributed import killing
from tests.distributed.tiny_recipe import RECIPE
from tests.engines.tiny import same_tensors
from tests.runs.runs_helpers import write_recipe
from workings.evidence.verify import verify
from workings.publish.export import export_run
from workings.record.layout import RECIPE_EVALUATION
from workings.record.reader import RunRecord
from workings.runs.train_and_evaluate import train_and_evaluate

SMALL = ("training.steps=8", "model.shape.layers=1", "evaluation.base=false", "evaluation.every_steps=8",
         "checkpoint.every_steps=2")


@pytest.fixture(scope="module")
def start(start_forked) -> killing.Start:
    """Starts what would be ``-m workings …`` as `killing.IMPATIENT`; JAX's thread waits less for the main one, too."""
    code = "from workings.engines.jax import processes\nprocesses.GRACE_SECONDS = 4.0\n" + killing.IMPATIENT
    return lambda _, module, *words, **options: start_forked("-c", code, *words, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, start) -> Path:
    """A folder with the recipe and `whole`, a run of two processes of JAX that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write_recipe(folder, RECIPE)
    assert killing.kill_and_go_on(start, folder, "whole", [], *SMALL) == (0, [])
    return folder


def test_two_processes_of_jax_train_and_are_asked_like_one(tmp_path: Path, start, whole: Path) -> None:
    """Training, held-out loss, the items; only the first process answers."""
    words = ["engine=jax", *SMALL, "batch.micro_batch=2"]
    one = train_and_evaluate(str(whole / "recipe.yaml"), tmp_path / "one", words)
    two, alone = (killing.contents(run) for run in (whole / "whole", tmp_path / "one"))
    assert two["answers"] == alone["answers"]
    losses = [[line[key] for line in run["metrics"] for key in ("loss", "evaluation_loss") if key in line]
              for run in (two, alone)]
    np.testing.assert_allclose(*losses, atol=1e-5)
    manifest = RunRecord.open(whole / "whole").manifest
    assert (manifest.status, manifest.completed_steps, manifest.device.processes) == ("complete", 8, 2)
    assert killing.problems_at_end(whole / "whole", two) == []
    # As if all had been killed when the run was sealed: the same command finishes the evaluation.
    again = shutil.copytree(whole, tmp_path / "again")
    shutil.rmtree(again / "whole" / "eval")
    pair = killing.jax_pair(start, again, "whole", *SMALL, "--json")
    said = [child.communicate() for child in pair]
    assert [child.returncode for child in pair] == [0, 0], said
    assert "{" not in said[1][0]
    assert json.loads(said[0][0].splitlines()[-1])["accuracy"] == one.scorecard.overall.mean
    assert (again / "whole" / RECIPE_EVALUATION / "predictions.jsonl").read_bytes() == two["answers"]


# `python -m proof.kills` kills either one at random moments.
def test_a_run_in_shards_whose_processes_are_killed_has_the_bits_of_one_with_whole_files(
        tmp_path: Path, start, whole: Path) -> None:
    write_recipe(tmp_path, RECIPE)
    assert killing.kill_and_go_on(start, tmp_path, "killed", [(1, 3, 0.0), (0, 1, 0.0)], *SMALL,
                                  "checkpoint.sharded=true") == (2, [])
    runs = [whole / "whole", tmp_path / "killed"]
    first, second = (killing.contents(run) for run in runs)
    assert second["metrics"] == first["metrics"]
    assert second["answers"] == first["answers"]
    same_tensors(*(max(run.glob("checkpoints/step_*")) for run in runs), count=2)
    assert verify(tmp_path / "killed").failed == 0
    exported = [export_run(run, tmp_path / f"{run.name} exported").files for run in runs]
    assert exported[0]["model.safetensors"] == exported[1]["model.safetensors"]


@pytest.mark.full
def test_torchrun_starts_killed_processes_again(tmp_path: Path, start_forked) -> None:
    write_recipe(tmp_path, RECIPE)
    sharded = "checkpoint.sharded=true"
    child = killing.torchrun(start_forked, tmp_path, "killed", 2, *SMALL, sharded)
    for steps in (3, 6):
        killing.wait_for_steps(tmp_path / "killed", steps, lambda: child.poll() is None)
        killing.send(killing.children(child.pid)[0], signal.SIGKILL)
    _, said = child.communicate()
    assert child.returncode == 0, said
    for run, words in (("whole", [sharded]), ("one-file", [])):
        assert killing.torchrun(start_forked, tmp_path, run, 0, *SMALL, *words).communicate()[1]
    same_tensors(*(max((tmp_path / run).glob("checkpoints/step_*")) for run in ("one-file", "whole")), count=2)
    assert killing.problems_at_end(tmp_path / "killed", killing.contents(tmp_path / "whole")) == []


def test_a_port_that_is_taken_is_refused(tmp_path: Path, start_forked) -> None:
    """JAX itself ends in a segmentation fault there."""
    write_recipe(tmp_path, RECIPE)
    with killing.listening() as port:
        child = start_forked(*killing.words("run", "engine=jax"), cwd=tmp_path, environment={
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"})
        _, said = child.communicate()
    assert child.returncode == 2
    assert "a port that is free on the host of process 0" in said
