"""Eight simulated devices: the same numbers as one, checkpoints that move between meshes, nothing left unsplit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest


def ask(run_python, case: str, folder: Path) -> dict:
    done = run_python("-m", "tests.engines.eight_devices", case, folder, devices=8,
                      cwd=Path(__file__).resolve().parents[2])
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", ["adamw", "adafactor"])
def test_the_same_twenty_steps_on_every_mesh(case: str, run_python, tmp_path: Path) -> None:
    """fsdp=8 and fsdp=4 x tp=2 against one device. The vocabulary of 64 is split; the one of 61 cannot be."""
    found = ask(run_python, case, tmp_path)
    assert found["1"][-1] < 0.97 * found["1"][0]
    np.testing.assert_allclose(found["8"], found["1"], rtol=1e-5)
    np.testing.assert_allclose(found["4x2"], found["1"], rtol=1e-5)


def test_a_checkpoint_of_eight_devices_goes_on_with_one_two_and_four(run_python, tmp_path: Path) -> None:
    found = ask(run_python, "checkpoints", tmp_path)
    for mesh in ("1", "2", "4"):
        np.testing.assert_allclose(found[mesh], found["8"], rtol=1e-5)


def test_greedy_text_is_the_same_on_every_mesh(run_python, tmp_path: Path) -> None:
    found = ask(run_python, "generation", tmp_path)
    assert found["8"] == found["1"]
    assert found["4x2"] == found["1"]


def test_the_compiled_module_holds_no_unsplit_batch_and_no_whole_embedding(run_python, tmp_path: Path) -> None:
    """16 rows of 32 tokens on 8 devices: arrays of 2 x 32 positions, none of 16 x 32 x width or 512 x width, and no
    128 x 32 embedding."""
    found = ask(run_python, "places", tmp_path)
    assert found["tokens"] == [1, 2, 32]
    assert found["moment"] == [5, 48, 4]
    sizes = {tuple(map(int, dims.split(","))) for dims in re.findall(r"f32\[([\d,]+)\]", found["text"])}
    assert (2, 32, 32) in sizes
    assert not sizes & {(16, 32, 32), (512, 32), (16, 32, 48), (512, 48), (128, 32)}
