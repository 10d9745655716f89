"""`workings runs`: the list of runs in a terminal."""

import json

import pytest
from click.testing import CliRunner

from tests.record import synthetic
from tools.command_reference import PROGRAM
from workings.cli.runs import BARS, WIDTH, sparkline


@pytest.mark.parametrize(("values", "curve"), [
    ([], ""), ([3.0], "▁"), ([2.0, 2.0], "▁▁"), ([8.0, 1.0, 4.5], "█▁▄"),
    ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], BARS)])
def test_a_sparkline_is_low_where_values_are_low(values, curve):
    assert sparkline(values) == curve


def test_a_long_curve_is_thinned_and_ends_with_its_last_value():
    assert sparkline([float(value) for value in range(1000)])[-1] == "█"
    assert len(sparkline([0.0] * 1000)) == WIDTH


def test_runs_are_listed_with_their_curve_and_unfinished_ones_with_the_command_that_resumes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    synthetic.sealed_run(tmp_path / "runs" / "first")
    synthetic.sealed_run(tmp_path / "runs" / "second", "interrupted", 2)
    done = CliRunner().invoke(PROGRAM, ["runs"])
    assert done.exit_code == 0, done.output
    heading, first, second, resume = done.stdout.splitlines()
    assert heading.split() == ["run", "state", "steps", "loss", "curve", "accuracy"]
    assert first.split()[:2] == ["first", "complete"]
    assert any(letter in BARS for letter in first)
    assert second.split()[:2] == ["second", "interrupted"]
    assert resume.strip() == "resume: workings train tiny --out runs/second --resume"
    assert [row["name"] for row in json.loads(CliRunner().invoke(PROGRAM, ["runs", "--json"]).stdout)["runs"]] == [
        "first", "second"]


def test_a_missing_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(PROGRAM, ["runs"])
    assert "there is no folder runs" in str(done.exception)
