"""A run of the PyTorch engine, replayed here to the bit and with two threads within the tolerance."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.runs.replayed import trained_and_replayed

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_steps_of_the_second_engine_are_taken_again(
        tmp_path: Path, workings: Callable[..., "CompletedProcess[str]"]) -> None:
    run = tmp_path / "runs" / "tiny"
    trained_and_replayed(run, "engine=torch")

    done = workings("runs", "replay", run, "--json", environment={"OMP_NUM_THREADS": "2"})
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["verdict"], told["mode"]) == ("passed", "tolerance")
    assert {"threads", "variables"} <= set(told["differing"])
    assert told["controls"] == dict.fromkeys(("checkpoint", "learning_rate", "rows", "seed"), True)
    assert told["weights"]["largest_difference"] < 1e-4
