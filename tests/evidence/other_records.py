"""Real records of the other ways of learning, and of what is made of runs: each as files in memory, to be walked over.

Of a way of learning the recipe is that of `tests/runs/killed.py`: as small as a transformer can be. They train, so
`proof/witnesses.py` makes all of them and the tests one.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence import walk
from tests.evidence.test_sampled import samples_unit
from tests.evidence.walk import Step, files_of
from tests.runs import distilled, killed
from tests.runs.runs_helpers import OTHER_PACKAGE, write_recipe
from workings.evidence.attest import keys
from workings.evidence.attest.sign import sign_run
from workings.publish.pack import pack
from workings.runs import describe, replay
from workings.runs.code_version import CodeVersion
from workings.runs.replay import ReplayRequest, replay_and_seal
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate

Files = dict[str, bytes]
SAME = CodeVersion(version="0.1.0", commit="a" * 39 + "b", dirty_diff_sha256="", absent_because="no changes")


def below(folder: Path) -> Files:
    """Every file but the curves, which are in no seal."""
    return {name: data for name, data in files_of(folder).items() if not name.startswith("tensorboard")}


def rewards(folder: Path) -> Files:
    """A run that learned from two rewards, with two updates a rollout."""
    train(str(killed.write_rewarded(folder)), folder / "runs" / "a",
          [*killed.REWARDED["two updates a rollout, dynamic sampling"]])
    return below(folder / "runs")


def pairs(folder: Path) -> Files:
    """A run that learned from preference pairs."""
    train(str(killed.write_pairs(folder)), folder / "runs" / "a", ["training.learning_rate=0.01"])
    return below(folder / "runs")


def teacher(folder: Path) -> Files:
    """A run that learned from a teacher."""
    train(str(distilled.write(folder, ["training.steps=2"])), folder / "runs" / "student", ["training.steps=2"])
    return below(folder / "runs")


def samples(folder: Path) -> Files:
    """A unit of samples, with what was kept of them and pairs."""
    return {f"drawn/{name}": data for name, data in files_of(samples_unit(folder / "drawn")).items()}


def small_run(folder: Path, patch: pytest.MonkeyPatch, name: str) -> Path:
    """A run of the small engine with its evaluation."""
    patch.syspath_prepend(str(OTHER_PACKAGE))
    for module in (describe, replay):
        patch.setattr(module, "code_version", lambda: SAME)
    run = train_and_evaluate(str(write_recipe(folder / "asked")), folder / "runs" / name,
                             ["evaluation.base=false"]).training.run
    sys.modules.pop("other_engine", None)
    return run


def replays(folder: Path) -> Files:
    """A run with a sealed replay."""
    with pytest.MonkeyPatch.context() as patch:
        replay_and_seal(small_run(folder, patch, "a"), ReplayRequest(seed=1))
    return below(folder / "runs")


def packs(folder: Path) -> Files:
    """A pack of two runs, one of them signed."""
    with pytest.MonkeyPatch.context() as patch:
        runs = [small_run(folder, patch, name) for name in ("a", "b")]
    sign_run(runs[1], keys.new_key(folder / "key").private)
    pack(runs, folder / "pack.zip")
    return files_of(folder / "pack.zip")


def steps_of(kind: str, files: Files) -> list[Step]:
    """Fields to change: all, but of runs beside what the record is about, which are walked over by themselves."""
    steps = walk.steps_of(files)
    if kind == "replays":
        return [step for step in steps if "/replay/" in step.name]
    if kind == "packs":
        return [step for step in steps if not step.name.startswith("runs/") or step.name == "runs/attempts.jsonl"]
    return steps


KINDS: dict[str, Callable[[Path], Files]] = {
    each.__name__: each for each in (rewards, pairs, teacher, samples, replays, packs)}
