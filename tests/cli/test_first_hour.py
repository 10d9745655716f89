"""What a person meets in the first hour: help, version, hints and errors that work as printed."""

import json
import sys

import typer
from typer.testing import CliRunner

from workings import hints
from workings.cli import output
from workings.cli.main import app
from workings.cli.output import COMMAND_GROUPS, as_typed
from workings.cli.verify import NOT_PROVED, verification_text
from workings.evidence.verify.result import Check, CheckVerdict, Verification
from workings.hints import interpreter, pip_install


def test_every_verb_stands_in_one_group_of_the_help():
    verbs = [verb for group in COMMAND_GROUPS.values() for verb in group]
    command = typer.main.get_command(app)
    assert sorted(verbs) == sorted(command.commands)
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"\n{heading}:\n" in shown for heading in COMMAND_GROUPS)
    # To the end of the sentence, on a second line.
    assert "versions, space." in " ".join(shown.split())


def test_an_error_is_a_line_of_json_for_who_asked_for_json(workings):
    plain, asked = (workings("plan", "smoke-tiny", "--on", "moon", *more, check=False) for more in ((), ("--json",)))
    error = json.loads(asked.stdout)["error"]
    assert (plain.stdout, error["exit_code"], error["given"]) == ("", 2, "--on moon names no target of the catalog")
    assert "v5e-8" in error["expected"]
    assert all("given:    --on moon" in done.stderr for done in (plain, asked))


def test_a_hint_to_install_names_the_python_that_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hints, "which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert pip_install("ui") == ".venv/bin/python -m pip install 'workings[ui]'"
    assert pip_install("pyarrow", extra=False) == ".venv/bin/python -m pip install 'pyarrow'"
    monkeypatch.setattr(hints, "which", lambda name: sys.executable)
    assert interpreter() == "python"
    monkeypatch.setattr(hints, "which", lambda name: "/usr/bin/python")
    monkeypatch.setattr(sys, "executable", "/opt/python")
    assert interpreter() == "/opt/python"


def test_commands_in_a_text_are_typed_as_this_program_was(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv/bin/workings")])
    text = "try `workings recipes list`; the workings of it; to verify: workings verify runs/a; .venv/bin/workings ask"
    assert as_typed(text) == ("try `.venv/bin/workings recipes list`; the workings of it; "
                              "to verify: .venv/bin/workings verify runs/a; .venv/bin/workings ask")
    monkeypatch.setattr(output.shutil, "which", lambda name: "/usr/bin/workings")
    assert as_typed(text) == text


def verification(*verdicts: CheckVerdict, blocking=True) -> Verification:
    checks = tuple(Check(id=f"integrity.{n}", level=0, verdict=verdict, text="said", blocking=blocking)
                   for n, verdict in enumerate(verdicts))
    return Verification(path="runs/a", checks=checks, asked_level=0, root="ab")


def test_a_good_record_is_one_line_and_a_bad_one_says_what_is_wrong():
    passed, failed, not_made = CheckVerdict.PASSED, CheckVerdict.FAILED, CheckVerdict.NOT_CHECKED
    good = verification(passed, not_made, blocking=False)
    assert verification_text(good, verbose=False) == (
        "verified: runs/a, level 0 of 0: 1 checks passed, 0 failed, 1 not made; -v lists them\n"
        "root ab (of everything here)")
    assert verification_text(good, verbose=True).splitlines()[:4] == [
        "passed       integrity.0: said", "not checked  integrity.1: said", "", NOT_PROVED]
    for verdict, line, end in ((failed, "FAILED       integrity.1: said", "FAILED: runs/a, no level of 0: "),
                               (not_made, "not checked  integrity.1: said", "not reached: runs/a")):
        first, last, _ = verification_text(verification(passed, verdict), verbose=False).splitlines()
        assert (first, last.startswith(end)) == (line, True)
    checks = tuple(Check(id=f"form.{level}", level=level, verdict=passed, text="said") for level in (0, 1))
    unevaluated = Verification(path="runs/a", checks=checks, asked_level=2, root="ab")
    assert "level 2: nothing here to check, such as an evaluation" in verification_text(unevaluated, verbose=False)
