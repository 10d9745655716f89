"""What `quickstart --json` says with and without the third run, from results that need no training."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.evaluation.making import items, score
from workings.evaluation.comparison.compare import compare
from workings.runs.quickstarts.quickstart import ANSWER_ONLY, SAME_TOKENS, WITH_STEPS, QuickstartResult


def result(folder: Path, *, full: bool) -> QuickstartResult:
    asked = items(40)
    right = {WITH_STEPS: 40, ANSWER_ONLY: 8, SAME_TOKENS: 14}
    names = [name for name in right if full or name != SAME_TOKENS]
    paths = {name: score(folder, name, asked, [k < right[name] for k in range(40)]) for name in names}
    runs: dict[str, Any] = {name: SimpleNamespace(training=SimpleNamespace(run=paths[name], supervised_tokens=100))
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
