"""`workings runs`: the list of runs in a terminal."""

import json

from click.testing import CliRunner

from tests.record import synthetic
from tools.command_reference import PROGRAM


def test_runs_are_listed_and_unfinished_ones_with_the_command_that_resumes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no folder runs" in str(CliRunner().invoke(PROGRAM, ["runs"]).exception)
    synthetic.sealed_run(tmp_path / "runs" / "first")
    synthetic.sealed_run(tmp_path / "runs" / "second", "interrupted", 2)
    done = CliRunner().invoke(PROGRAM, ["runs"])
    assert done.exit_code == 0, done.output
    heading, first, second, resume = done.stdout.splitlines()
    assert heading.split() == ["run", "state", "steps", "loss", "accuracy"]
    assert first.split()[:2] == ["first", "complete"]
    assert second.split()[:2] == ["second", "interrupted"]
    assert resume.strip() == "resume: workings train runs/second/config/recipe.yaml --out runs/second --resume"
    assert [row["name"] for row in json.loads(CliRunner().invoke(PROGRAM, ["runs", "--json"]).stdout)["runs"]] == [
        "first", "second"]
