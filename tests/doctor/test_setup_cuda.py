"""`doctor --setup cuda`: what is printed, what is run in which order, and when it stops."""

import shlex
from pathlib import Path

import pytest

from tests.doctor.making import card
from workings.doctor.nvidia import Driver
from workings.doctor.setup_cuda import ENVIRONMENT, LOG, CannotSetUp, Ran, perform, plan_setup, run_command
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
        return Ran(returncode=1 if self.fails(text, self.commands) else 0, output=f"output of {text}\nlast line\n")


def test_what_would_be_done_is_printed_with_the_index_and_a_kernel_at_the_end():
    plan = plan_setup(HERE)
    assert [build.tag for build, _ in plan.attempts] == ["cu130", "cu128"]
    text = "\n".join(plan.lines())
    assert "whl/cu130" in text
    assert "only if the kernel fails with that one" in text
    for _, commands in plan.attempts:
        assert commands[-1][-2:] == ("--kernel", "fp32")
        assert all(command[0].startswith(str(ENVIRONMENT)) or command[-1] == str(ENVIRONMENT) for command in commands)
    assert "installed" not in plan.to_json()


def test_the_first_build_that_runs_a_kernel_stays_and_every_command_is_logged():
    machine = Machine(lambda text, _: False)
    done = perform(plan_setup(HERE), machine, lambda text: None)
    assert done.installed.tag == "cu130"
    assert len(machine.commands) == 4
    log = LOG.read_text()
    assert all(f"$ {command}" in log and f"output of {command}" in log for command in machine.commands)
    assert done.to_json()["installed"] == "cu130"


def test_then_one_older_build_and_then_it_stops_and_never_ends_with_the_cpu():
    machine = Machine(lambda text, commands: "--kernel" in text and len(commands) < 5)
    assert perform(plan_setup(HERE), machine, lambda text: None).installed.tag == "cu128"
    machine = Machine(lambda text, _: "--kernel" in text)
    with pytest.raises(WorkingsError, match=r"(?s)cu130.*cu128.*setup\.log"):
        perform(plan_setup(HERE), machine, lambda text: None)
    assert sum("--kernel" in command for command in machine.commands) == 2
    assert not any("whl/cpu" in command for command in machine.commands)


def test_a_failed_download_is_said_with_its_last_line():
    with pytest.raises(WorkingsError, match="last line"):
        perform(plan_setup(HERE), Machine(lambda text, _: "--index-url" in text), lambda text: None)


def test_without_card_or_build_nothing_is_set_up():
    with pytest.raises(CannotSetUp, match="no nvidia-smi"):
        plan_setup(Driver(failure="there is no nvidia-smi on this machine"))
    with pytest.raises(CannotSetUp, match=r"(?s)holds no code.*update NVIDIA's driver"):
        plan_setup(Driver(cards=(card("3.7", "470.82.01"),), cuda="11.4"))


def test_a_command_is_really_run():
    done = run_command(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert done.returncode == 3
    assert set(done.output.split()) == {"out", "err"}
