"""What `quickstart` says, and how it goes on where it was cut short, from records that need no training."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.evaluation.making import items, score
from tests.record import synthetic
from workings.cli.quickstart import quickstart_command
from workings.errors import Interrupted, RequestError
from workings.evaluation.comparison.compare import compare
from workings.runs.quickstarts import quickstart, quickstart_rewards
from workings.runs.quickstarts.quickstart import ANSWER_ONLY, SAME_TOKENS, WITH_STEPS, QuickstartResult


def result(folder: Path, *, full: bool) -> QuickstartResult:
    asked = items(40)
    right = {WITH_STEPS: 40, ANSWER_ONLY: 8, SAME_TOKENS: 14}
    names = [name for name in right if full or name != SAME_TOKENS]
    paths = {name: score(folder, name, asked, [k < right[name] for k in range(40)]) for name in names}
    runs: dict[str, Any] = {name: SimpleNamespace(path=paths[name], manifest=SimpleNamespace(supervised_tokens=100))
                            for name in names}
    more = {SAME_TOKENS: compare(paths[SAME_TOKENS], paths[WITH_STEPS])} if full else {}
    return QuickstartResult(out=folder, runs=runs, comparison=compare(paths[ANSWER_ONLY], paths[WITH_STEPS]),
                            seconds=1.0, more=more)


def test_the_third_run_has_its_own_key(tmp_path: Path) -> None:
    found = result(tmp_path / "full", full=True)
    told = found.to_json()
    assert told["same_tokens_accuracy"] == 14 / 40
    assert (told["traces_accuracy"], told["answer_only_accuracy"], told["items"]) == (1.0, 8 / 40, 40)
    assert [Path(run).name for run in told["runs"]] == [WITH_STEPS, ANSWER_ONLY, SAME_TOKENS]
    assert f"{SAME_TOKENS}: {WITH_STEPS} is better than {SAME_TOKENS}: 100.0 %" in found.text()


def test_without_it_the_key_is_left_out(tmp_path: Path) -> None:
    told = result(tmp_path / "short", full=False).to_json()
    assert "same_tokens_accuracy" not in told
    assert told["verdict"] == "better"


def test_complete_runs_are_used_and_an_unfinished_one_is_resumed(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, said, trained = quickstart._recipe(WITH_STEPS, 17, "tags", ()), [], []
    done = synthetic.sealed_run(tmp_path / "runs" / WITH_STEPS, name=WITH_STEPS)

    def train(recipe: str, out: Path, *, resume: bool) -> SimpleNamespace:
        trained.append((Path(recipe).name, out, resume))
        return SimpleNamespace(training=SimpleNamespace(status=status))

    monkeypatch.setattr(quickstart, "train_and_evaluate", train)
    assert quickstart.complete_run(tmp_path, WITH_STEPS, recipe, said.append) is None
    assert trained == []
    (tmp_path / "runs" / f"{ANSWER_ONLY}.partial").mkdir()
    status = "complete"
    for name in (ANSWER_ONLY, SAME_TOKENS):
        assert quickstart.complete_run(tmp_path, name, recipe, said.append) is not None
    assert trained == [(f"{name}.yaml", tmp_path / "runs" / name, resume)
                       for name, resume in ((ANSWER_ONLY, True), (SAME_TOKENS, False))]
    assert said == [f"{done} is complete and is used as it is",
                    f"{tmp_path / 'runs' / ANSWER_ONLY} was cut short and goes on"]
    status = "interrupted"
    with pytest.raises(Interrupted, match=f"to go on: the same command with --out {tmp_path}"):
        quickstart.complete_run(tmp_path, SAME_TOKENS, recipe, said.append)


@pytest.mark.parametrize(("begin", "first", "last"), [
    (quickstart.quickstart, WITH_STEPS, ANSWER_ONLY),
    (partial(quickstart_rewards.quickstart_rewards, export=None), quickstart_rewards.START, quickstart_rewards.RANDOM)])
def test_only_the_same_quickstart_goes_on(begin: Any, first: str, last: str, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    class GoesOn(Exception):
        """Raised in place of training."""

    def trains(*_: object) -> None:
        raise GoesOn

    for module in (quickstart, quickstart_rewards):
        monkeypatch.setattr(module, "complete_run", trains)
        monkeypatch.setattr(module, "make_data", lambda folder, *_, **__: folder.mkdir(parents=True))
    out, words = tmp_path / "out", ("training.steps=60",)
    out.mkdir()
    with pytest.raises(RequestError, match="which exists"):  # its data may be half made
        begin(out, words)
    out.rmdir()
    for _ in range(2):
        with pytest.raises(GoesOn):
            begin(out, words)
    for other, name in (({"seed": 18, "overrides": words}, first), ({}, "")):
        with pytest.raises(RequestError, match=f"another seed or other overrides.*(?s:.*){out}/recipes/{name}"):
            begin(out, **other)
    (out / "recipes" / f"{last}.yaml").unlink()
    with pytest.raises(RequestError, match="which exists"):
        begin(out, words)


def test_stopped_while_it_answers_it_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "quickstart", stopped)
    monkeypatch.setattr(quickstart_rewards, "quickstart_rewards", stopped)
    for rewards in (False, True):
        out = tmp_path / f"rewards-{rewards}"
        with pytest.raises(KeyboardInterrupt):  # nothing to go on with
            quickstart_command(out=out, rewards=rewards)
        (out / "recipes").mkdir(parents=True)
        with pytest.raises(Interrupted, match=f"to go on: the same command with --out {out}"):
            quickstart_command(out=out, rewards=rewards)
