"""The runner of `make proof` and `make bench`, and the files they leave."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tools import result_file, run_scripts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run_scripts, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()

    def write(name: str, code: str) -> None:
        (tmp_path / "bench" / f"{name}.py").write_text(f'"""Shows {name}."""\nimport sys\n{code}\n')
    return write


def test_all_scripts_run_even_when_one_fails(folder, capfd):
    folder("a_fails", "sys.exit(1)")
    folder("b_good", "print('good ran')")
    folder("_helper", "print('helper ran')")
    assert run_scripts.main(["bench"]) == 1
    output = capfd.readouterr().out
    assert "good ran" in output
    assert "helper ran" not in output
    assert "bench/a_fails: Shows a_fails." in output


@pytest.mark.parametrize(("codes", "verdict"), [
    ({}, 0), ({"a": 0, "b": 0}, 0), ({"a": 0, "b": 3}, 3), ({"a": 3, "b": 1}, 1), ({"a": -9}, 1)])
def test_failed_comes_before_not_measured(codes, verdict):
    assert run_scripts.exit_code(codes) == verdict


def test_a_result_file_tells_where_its_numbers_come_from(tmp_path):
    path = tmp_path / "deep/result.json"
    result_file.write_result(path, what="Counts.", command="python -m proof.x", values={"n": 3}, packages=["numpy"],
                             load_before=0.25)
    result = json.loads(path.read_text())
    assert result["values"] == {"n": 3}
    assert result["machine"]["load_before"] == 0.25
    assert result["machine"]["cores"] >= 1
    assert set(result["versions"]) == {"python", "workings", "numpy"}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode == 0:
        assert result["commit"].startswith(head.stdout.strip())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
