"""`eval` and `compare` as commands: one JSON object on the last line, and the exit codes."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.children import ForkedChild
from tests.evaluation.making import completions, items, score_here, write_lines

Workings = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scoring process."""
    score_here(monkeypatch)


def answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    return dict(json.loads(done.stdout.splitlines()[-1]))


def make(workings: Workings, folder: Path, name: str, right: int, count: int = 60) -> Path:
    asked = items(count)
    write_lines(folder / "items.jsonl", [item.to_json() for item in asked])
    write_lines(folder / f"{name}.jsonl", completions(asked, [k < right for k in range(count)]))
    done = workings("eval", "--predictions", folder / f"{name}.jsonl", "--items", folder / "items.jsonl", "--out",
                    folder / name, "--json")
    values = answer(done)
    assert (values["items"], values["accuracy"]) == (count, right / count)
    assert values["ci_low"] < right / count < values["ci_high"]
    assert len(done.stdout.splitlines()) == 1
    return folder / name


def test_from_predictions_to_a_gate(tmp_path: Path, workings: Workings) -> None:
    a, b = make(workings, tmp_path, "a", 20), make(workings, tmp_path, "b", 50)
    found = workings("compare", a, b, "--html", tmp_path / "page.html", "--json")
    values = answer(found)
    assert values["verdict"] == "better"
    assert "b is better" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert workings("compare", a, a, check=False).returncode == 3
    assert workings("compare", a, b).stdout.startswith("b is better than a: ")

    main, best = tmp_path / "baselines" / "main", tmp_path / "baselines" / "best"
    assert answer(workings("compare", a, "--save", main, "--json"))["items"] == 60
    assert answer(workings("compare", b, "--gate", main, "--max-drop", "0.02", "--json"))["verdict"] == "pass"
    workings("compare", b, "--save", best)
    failed = workings("compare", a, "--gate", best, "--json", check=False)
    assert (failed.returncode, answer(failed)["verdict"]) == (1, "fail")
    for words, code in ((("--inconclusive", "3"), 3), (("--inconclusive", "pass"), 0), (("--inconclusive", "fail"), 1)):
        assert workings("compare", b, "--gate", best, *words, check=False).returncode == code
    for words, said in ((("--max-drop", "2"), "try:      --max-drop 0.02"), ((b,), "--gate cannot be combined"),
                        (("--html", "page.html"), "--html cannot be used with --gate")):
        refused = workings("compare", a, *words, "--gate", best, check=False)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


def test_seeds_and_tables(tmp_path: Path, workings: Workings) -> None:
    a, b, c = (make(workings, tmp_path, name, right) for name, right in (("a", 20), ("b", 50), ("c", 21)))
    table = answer(workings("compare", a, b, c, "--html", tmp_path / "page.html", "--json"))
    assert "b, c" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (table["best"], [row["name"] for row in table["runs"]]) == ("b", ["b", "c", "a"])
    seeds = answer(workings("compare", a, b, "--with-a", c, "--json"))
    assert (seeds["verdict"], seeds["method_verdict"], seeds["a"]["seeds"]) == ("better", "no claim", 2)
    refused = workings("compare", a, b, "--with-a", c, "--html", tmp_path / "seeds.html", check=False)
    assert (refused.returncode, (tmp_path / "seeds.html").exists()) == (2, False)
    assert workings("compare", a, b, c, "--with-a", c, check=False).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_an_interrupted_evaluation_says_how_to_go_on(tmp_path: Path, start_forked: Callable[..., ForkedChild],
                                                    number: signal.Signals) -> None:
    asked = items(3)
    write_lines(tmp_path / "items.jsonl", [item.to_json() for item in asked])
    write_lines(tmp_path / "p.jsonl", completions(asked, [True] * 3))
    (tmp_path / "slow.py").write_text("import time\ndef score(answer, item):\n"
                                      "    open('started', 'w').close()\n    time.sleep(600)\n")
    child = start_forked("-m", "workings", "eval", "--predictions", "p.jsonl", "--items", "items.jsonl", "--out", "out",
                         "--scorer", "slow.py:score", cwd=tmp_path)
    while not (tmp_path / "started").exists():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(number)
    _, said = child.communicate()
    assert child.returncode == 130
    assert "to resume, run the same command" in said
    assert "Traceback" not in said


def test_wrong_requests_exit_with_two(tmp_path: Path, workings: Workings) -> None:
    a = make(workings, tmp_path, "a", 20)
    different = workings("compare", a, make(workings, tmp_path, "b", 10, 30), "--json", check=False)
    assert (different.returncode, answer(different)["verdict"]) == (2, "not comparable")
    for arguments, text in (
            (("eval", a, "--predictions", a, "--items", a, "--out", tmp_path / "x"), "MODEL and --predictions"),
            (("eval", "--predictions", a, "--items", tmp_path / "gone", "--out", tmp_path / "x"), "gone"),
            (("compare", a, tmp_path / "nothing"), "nothing"),
            (("compare", a, "--gate", tmp_path / "none"), "none")):
        done = workings(*arguments, check=False)
        assert done.returncode == 2, done.stderr
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()
