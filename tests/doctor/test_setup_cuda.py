"""`doctor --setup cuda`: what is printed, what is run in which order, and when it stops."""

import shlex
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.doctor.making import card
from workings.doctor.nvidia import Driver
from workings.doctor.setup_cuda import ENVIRONMENT, LOG, perform, plan_setup
from workings.errors import WorkingsError

HERE = Driver(cards=(card("12.0", "580.65.06", "NVIDIA GeForce RTX 5090"),), cuda="13.0")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Represents pip and the card: notes every command; one with the word in ``failing`` fails."""
    commands, failing = [], []

    def run(command, **options):
        text = shlex.join(command)
        commands.append(text)
        if "-m venv" in text:
            Path(command[-1]).mkdir(exist_ok=True)
        return CompletedProcess(command, int(any(word in text for word in failing)),
                                stdout=f"output of {text}\nlast line\n")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    return commands, failing


def test_what_would_be_done_is_printed_with_the_index_and_a_kernel_at_the_end():
    plan = plan_setup(HERE)
    assert plan.build.tag == "cu130"
    assert "whl/cu130" in "\n".join(plan.lines())
    assert plan.commands[-1][-2:] == ("--kernel", "fp32")
    assert all(command[0].startswith(str(ENVIRONMENT)) or command[-1] == str(ENVIRONMENT) for command in plan.commands)
    assert not plan.to_json()["installed"]


def test_every_command_is_logged(machine):
    assert perform(plan_setup(HERE), lambda text: None).to_json()["installed"]
    commands, log = machine[0], LOG.read_text()
    assert len(commands) == 4
    assert all(f"$ {command}" in log and f"output of {command}" in log for command in commands)


@pytest.mark.parametrize("failing", ["--index-url", "--kernel"])
def test_a_failure_is_said_with_its_last_line_and_never_ends_with_the_cpu(failing, machine):
    machine[1].append(failing)
    with pytest.raises(WorkingsError, match=r"(?s)cu130.*last line.*setup\.log"):
        perform(plan_setup(HERE), lambda text: None)
    assert not any("whl/cpu" in command for command in machine[0])


def test_without_a_build_nothing_is_set_up():
    refused = plan_setup(Driver(cards=(card("3.7", "470.82.01"),), cuda="11.4"))
    assert "holds no code" in refused.what
    assert "update NVIDIA's driver" in refused.mend
