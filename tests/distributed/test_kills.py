"""Processes of a run that are killed: the other one says so and ends in order, and the run goes on to the same bit."""

import signal
from pathlib import Path

import pytest

from tests.distributed import killing
from tests.distributed.tiny_recipe import RECIPE
from tests.runs.runs_helpers import write_recipe

SMALL = ("training.steps=8", "model.shape.layers=1", "evaluation.base=false", "evaluation.every_steps=8",
         "checkpoint.every_steps=2")


def test_either_process_of_jax_is_killed(tmp_path: Path, start_forked) -> None:
    write_recipe(tmp_path, RECIPE)
    assert killing.kill_and_go_on(start_forked, tmp_path, "killed", [(0, 3, 0.0), (1, 2, 0.0)], *SMALL) == (2, [])
    assert killing.kill_and_go_on(start_forked, tmp_path, "whole", [], *SMALL) == (0, [])
    assert killing.problems_at_end(tmp_path / "killed", killing.contents(tmp_path / "whole")) == []


@pytest.mark.full
def test_torchrun_starts_killed_processes_again(tmp_path: Path, start_forked) -> None:
    write_recipe(tmp_path, RECIPE)
    child = killing.torchrun(start_forked, tmp_path, "killed", 2, *SMALL)
    for steps in (3, 6):
        killing.wait_for_steps(tmp_path / "killed", steps, lambda: child.poll() is None)
        killing.send(killing.children(child.pid)[0], signal.SIGKILL)
    _, said = child.communicate()
    assert child.returncode == 0, said
    whole = killing.torchrun(start_forked, tmp_path, "whole", 0, *SMALL)
    assert whole.communicate()[1]
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
