"""`doctor --setup cuda`: what is printed, what is run in which order, and when it stops."""

import shlex
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.doctor.making import card
from workings.doctor.nvidia import Driver
from workings.doctor.setup_cuda import ENVIRONMENT, LOG, perform, plan_setup
from workings.errors import WorkingsError

HERE = Driver(cards=(card("12.0", "580.65.06", "NVIDIA GeForce RTX 5090"),), cuda="13.0")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Machine:
    """Represents pip and the card: notes every command, and fails where it is told to."""

    def __init__(self, fails):
        self.fails, self.commands = fails, []

    def __call__(self, command):
        text = shlex.join(command)
        self.commands.append(text)
        if "-m venv" in text:
            Path(command[-1]).mkdir(exist_ok=True)
        return CompletedProcess(command, 1 if self.fails(text) else 0, stdout=f"output of {text}\nlast line\n")


def test_what_would_be_done_is_printed_with_the_index_and_a_kernel_at_the_end():
    plan = plan_setup(HERE)
    assert plan.build.tag == "cu130"
    assert "whl/cu130" in "\n".join(plan.lines())
    assert plan.commands[-1][-2:] == ("--kernel", "fp32")
    assert all(command[0].startswith(str(ENVIRONMENT)) or command[-1] == str(ENVIRONMENT) for command in plan.commands)
    assert not plan.to_json()["installed"]


def test_every_command_is_logged():
    machine = Machine(lambda text: False)
    done = perform(plan_setup(HERE), machine, lambda text: None)
    assert done.to_json()["installed"]
    assert len(machine.commands) == 4
    log = LOG.read_text()
    assert all(f"$ {command}" in log and f"output of {command}" in log for command in machine.commands)


@pytest.mark.parametrize("failing", ["--index-url", "--kernel"])
def test_a_failure_is_said_with_its_last_line_and_never_ends_with_the_cpu(failing):
    machine = Machine(lambda text: failing in text)
    with pytest.raises(WorkingsError, match=r"(?s)cu130.*last line.*setup\.log"):
        perform(plan_setup(HERE), machine, lambda text: None)
    assert not any("whl/cpu" in command for command in machine.commands)


def test_without_card_or_build_nothing_is_set_up():
    refused = plan_setup(Driver(failure="there is no nvidia-smi on this machine"))
    assert "no nvidia-smi" in refused.what
    refused = plan_setup(Driver(cards=(card("3.7", "470.82.01"),), cuda="11.4"))
    assert "holds no code" in refused.what
    assert "update NVIDIA's driver" in refused.mend
