"""What `quickstart` says, and how it resumes where it was cut short, from records that need no training."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.record import synthetic
from workings.cli.quickstart import quickstart_command
from workings.errors import Interrupted, RequestError
from workings.runs.quickstarts import folder, real, tiny
from workings.runs.quickstarts.tiny import ANSWER_ONLY, WITH_STEPS

OTHER = "other"


def test_complete_runs_are_used_and_an_unfinished_one_is_resumed(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, said, trained = tiny.tiny_recipe(WITH_STEPS, 17, "tags", ()), [], []
    done = synthetic.sealed_run(tmp_path / "runs" / WITH_STEPS, name=WITH_STEPS)

    def train(recipe: str, out: Path, *, resume: bool) -> SimpleNamespace:
        trained.append((Path(recipe).name, out, resume))
        return SimpleNamespace(training=SimpleNamespace(status=status))

    monkeypatch.setattr(folder, "train_and_evaluate", train)
    folder.complete_run(tmp_path, WITH_STEPS, recipe, said.append)
    assert trained == []
    (tmp_path / "runs" / f"{ANSWER_ONLY}.partial").mkdir()
    status = "complete"
    for name in (ANSWER_ONLY, OTHER):
        folder.complete_run(tmp_path, name, recipe, said.append)
    assert trained == [(f"{name}.yaml", tmp_path / "runs" / name, resume)
                       for name, resume in ((ANSWER_ONLY, True), (OTHER, False))]
    assert said == [f"{done} is complete and is reused",
                    f"{tmp_path / 'runs' / ANSWER_ONLY} was interrupted and is resumed"]
    status = "interrupted"
    with pytest.raises(Interrupted, match=f"to resume: the same command with --out {tmp_path}"):
        folder.complete_run(tmp_path, OTHER, recipe, said.append)


@pytest.mark.parametrize("begin", [tiny.tiny_quickstart, real.real_quickstart])
def test_only_the_same_quickstart_goes_on(begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class GoesOn(Exception):
        """Raised in place of training."""

    def trains(*_: object) -> None:
        raise GoesOn

    monkeypatch.setattr(tiny, "complete_run", trains)
    monkeypatch.setattr(real, "read_items", trains)
    for module in (tiny, real):
        monkeypatch.setattr(module, "make_data", lambda folder, *_, **__: folder.mkdir(parents=True))
    out, words = tmp_path / "out", ("training.steps=60",)
    out.mkdir()
    with pytest.raises(RequestError, match="already exists"):  # its data may be half made
        begin(out, words)
    out.rmdir()
    for _ in range(2):
        with pytest.raises(GoesOn):
            begin(out, words)
    for other, name in (({"seed": 18, "overrides": words}, WITH_STEPS), ({}, "")):
        with pytest.raises(RequestError, match=f"another seed or other overrides.*(?s:.*){out}/recipes/{name}"):
            begin(out, **other)
    (out / "recipes" / f"{ANSWER_ONLY}.yaml").unlink()
    with pytest.raises(RequestError, match="already exists"):
        begin(out, words)


def test_stopped_while_it_answers_it_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tiny, "tiny_quickstart", stopped)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):  # nothing to continue with
        quickstart_command(out=out, tiny=True)
    (out / "recipes").mkdir(parents=True)
    with pytest.raises(Interrupted, match=f"to resume: the same command with --out {out}"):
        quickstart_command(out=out, tiny=True)


def test_rewards_need_the_real_model(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--rewards needs the real model: --tiny trains another one"):
        quickstart_command(out=tmp_path / "out", rewards=True, tiny=True)
