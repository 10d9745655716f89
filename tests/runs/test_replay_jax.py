"""A run of the JAX engine, replayed here to the bit and over two simulated devices within the tolerance."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.runs.replayed import CONTROLS, REPLAY, trained_and_replayed
from workings.evidence.replay.comparison import line_differences


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps on a part of the data, with checkpoints from the fourth on, and its replay at level 3."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    trained_and_replayed(out)
    return out


def test_over_two_devices_it_is_the_same_within_the_tolerance(
        run: Path, run_forked: Callable[..., "CompletedProcess[str]"]) -> None:
    done = run_forked("-c", REPLAY, run, "2", devices=2)
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["verdict"], told["mode"], told["from_step"], len(told["lines"])) == ("passed", "tolerance", 4, 4)
    assert {"mesh", "device", "variables"} <= set(told["conditions"]["differing"])
    assert {name: control["outside"] for name, control in told["controls"].items()} == dict.fromkeys(CONTROLS, True)
    assert told["weights"]["largest_difference"] < 1e-4
    # Other sums, the same steps: 0 on some processors.
    assert max(line_differences(line)["loss"] for line in told["lines"]) < 1e-5
