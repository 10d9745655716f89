"""Facts about the machine, read from files written here."""

from pathlib import Path

import pytest

from workings.hardware import machine


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("memory.max", "1073741824\n", 2**30), ("memory.max", "max\n", 0),
    ("memory/memory.limit_in_bytes", "2147483648\n", 2**31), ("memory/memory.limit_in_bytes", f"{2**63 - 4096}\n", 0)])
def test_memory_limits_of_control_groups(tmp_path: Path, name: str, text: str, expected: int) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert machine.cgroup_memory_limit_bytes(tmp_path) == expected


@pytest.mark.parametrize(("text", "expected"), [("150000 100000\n", 2), ("max 100000\n", 0), ("50000 100000\n", 1)])
def test_processor_quota_is_rounded_up(tmp_path: Path, text: str, expected: int) -> None:
    assert machine.cgroup_cpu_quota(tmp_path) == 0
    (tmp_path / "cpu.max").write_text(text)
    assert machine.cgroup_cpu_quota(tmp_path) == expected


def test_name_of_the_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\nmodel name\t: Other\n")
    assert machine.cpu_model(file) == "AMD EPYC 7B13"
    file.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    assert machine.cpu_model(file) != ""


def test_this_machine() -> None:
    facts = machine.describe()
    assert 1 <= facts.usable_cores <= facts.logical_cores
    assert 0 < facts.usable_memory_bytes <= facts.memory_bytes
    assert machine.as_json(facts)["cpu_model"] == facts.cpu_model


def test_a_limit_below_the_physical_memory_counts(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "memory.max").write_text("1048576")
    (tmp_path / "cpu.max").write_text("100000 100000")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    facts = machine.describe()
    assert (facts.usable_memory_bytes, facts.memory_source) == (1048576, "control group limit")
    assert (facts.usable_cores, facts.threads) == (1, {"OMP_NUM_THREADS": "1"})
