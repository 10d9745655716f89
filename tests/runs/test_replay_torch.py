"""A run of the PyTorch engine, replayed here to the bit and with two threads within the tolerance."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.runs.replayed import CONTROLS, REPLAY, trained_and_replayed

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_steps_of_the_second_engine_are_taken_again(
        tmp_path: Path, run_forked: Callable[..., "CompletedProcess[str]"]) -> None:
    run = tmp_path / "runs" / "tiny"
    trained_and_replayed(run, "engine=torch")

    done = run_forked("-c", REPLAY, run, "0", environment={"OMP_NUM_THREADS": "2"})
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["verdict"], told["mode"]) == ("passed", "tolerance")
    assert {"threads", "variables"} <= set(told["conditions"]["differing"])
    assert {name: control["outside"] for name, control in told["controls"].items()} == dict.fromkeys(CONTROLS, True)
    assert told["weights"]["largest_difference"] < 1e-4
