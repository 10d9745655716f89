"""What the machine does: processors from two looks, memory in use, cards as their driver tells them."""

from pathlib import Path

import pytest

from workings.hardware.machine_use import MachineUse

MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n"


def machine(root: Path, *ticks: int) -> Path:
    """A machine whose processors worked so long: user, nice, system, idle, waiting."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/stat").write_text(f"cpu  {' '.join(map(str, ticks))} 0 0 0 0 0\ncpu0 1 2 3\n")
    return root


def test_processors_count_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no card's driver
    use = MachineUse(machine(tmp_path, 100, 0, 50, 800, 50))
    assert use.look() == {"host_memory_used_bytes": 600 * 1024}  # no time went by
    machine(tmp_path, 160, 0, 65, 920, 55)  # of 200 ticks 75 were work
    assert use.look()["cpu_percent"] == 37.5
    (tmp_path / "proc/stat").unlink()
    assert "cpu_percent" not in use.look()


@pytest.mark.children
def test_cards_tell_what_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '97, 1024, 61.25, 40'\necho '0, 3, [N/A], 38'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = MachineUse(machine(tmp_path, 1, 0, 1, 1, 1)).look()
    assert {name: value for name, value in found.items() if name.startswith("gpu.")} == {
        "gpu.0.percent": 97, "gpu.0.memory_bytes": 2**30, "gpu.0.power_watts": 61.25, "gpu.0.celsius": 40,
        "gpu.1.percent": 0, "gpu.1.memory_bytes": 3 * 2**20, "gpu.1.celsius": 38}
