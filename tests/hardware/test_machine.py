"""Facts about the machine, read from files written here."""

from pathlib import Path

import pytest

from workings.hardware import machine


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
    assert 1 <= facts["usable_cores"] <= facts["logical_cores"]
    assert 0 < facts["usable_memory_bytes"] <= facts["memory_bytes"]


def test_a_limit_below_the_physical_memory_counts(tmp_path: Path, monkeypatch) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1048576")
    (group / "cpu.max").write_text("100000 100000")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    facts = machine.describe(tmp_path)
    assert (facts["usable_memory_bytes"], facts["memory_source"]) == (1048576, "control group (memory.max)")
    assert (facts["usable_cores"], facts["threads"]) == (1, {"OMP_NUM_THREADS": "1"})
