"""A run that distilled on traces: which fakes about what its teacher said are caught by whom."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from tests import kept_folders
from tests.evidence import reseal
from tests.runs import taught
from workings.evidence.verify import verify
from workings.record.layout import METRICS, top_tokens_file
from workings.runs.train import train

Arrays = dict[str, np.ndarray]
NAMES = ("tokens", "log_probs")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        train(str(taught.write(folder, ["training.steps=2"])), folder / "student", ["training.steps=2"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("taught"), "taught") / "student"


def said(change: Callable[[Arrays], Any]) -> Callable[[Path], None]:
    """Another file of what the teacher said."""
    def fake(run: Path) -> None:
        arrays = load((run / top_tokens_file(0)).read_bytes())
        arrays |= change({name: x.copy() for name, x in arrays.items()}) or {}
        (run / top_tokens_file(0)).write_bytes(save(arrays))
    return fake


def at(name: str, place: tuple[int, int], value: float) -> Callable[[Path], None]:
    def change(arrays: Arrays) -> Arrays:
        arrays[name][place] = value
        return {name: arrays[name]}
    return said(change)


def logged(**values: float) -> Callable[[Path], None]:
    def fake(run: Path) -> None:
        reseal.edit_lines(run / METRICS, lambda rows: [rows[0] | values, *rows[1:]])
    return fake


FILE, LOG = {"consistency.top_tokens"}, {"recompute.top_tokens"}
FAKES = {
    "a token that is none": (at("tokens", (0, 1), 10_000), FILE),
    "a token twice": (said(lambda arrays: {"tokens": np.repeat(arrays["tokens"][:, :1], 4, 1)}), FILE),
    "a likelier one behind": (at("log_probs", (0, 3), -1e-3), FILE | LOG),
    "more than all probability": (said(lambda arrays: {"log_probs": 0 * arrays["log_probs"] - 0.7}), FILE | LOG),
    "no number": (at("log_probs", (0, 3), -np.inf), FILE | LOG),
    "a position too few": (said(lambda arrays: {name: x[1:] for name, x in arrays.items()}), FILE | LOG),
    "another teacher": (said(lambda arrays: {"log_probs": arrays["log_probs"] - 1}), LOG),
    "another mass in the log": (logged(teacher_mass=0.99), LOG),
    "another entropy in the log": (logged(teacher_entropy=9.9), LOG),
    "something next to the tensors": (said(lambda arrays: {"more": np.zeros(3, np.float32)}), FILE | LOG),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAKES)
def test_a_fake_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    fake, caught = FAKES[name]
    run = shutil.copytree(honest, tmp_path / "run")
    fake(run)
    reseal.reseal(run)
    assert {check.id for check in verify(run).checks if check.verdict == "failed"} == caught


@pytest.mark.slow
def test_a_file_too_many_and_a_file_that_is_gone(honest: Path, tmp_path: Path) -> None:
    more, gone = (shutil.copytree(honest, tmp_path / name) for name in ("more", "gone"))
    shutil.copy(more / top_tokens_file(0), more / top_tokens_file(7))
    (gone / top_tokens_file(0)).unlink()
    for run, caught in ((more, FILE), (gone, FILE | LOG)):
        reseal.reseal(run)
        assert {check.id for check in verify(run).checks if check.verdict == "failed"} == caught
