"""What the machine did while a run trained, on the run's page."""

import json
from pathlib import Path

import pytest

from tests.ui.making import client, two_runs
from workings.ui.folder import Folder
from workings.ui.tabs.device import drawn, machine_use


def write(run: Path, lines: list[object]) -> None:
    (run / "train").mkdir(parents=True, exist_ok=True)
    (run / "train/machine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def at(second: int, **numbers: object) -> dict[str, object]:
    return {"time": f"2026-11-24T10:{second // 60:02}:{second % 60:02}.000Z", "step": 1, **numbers}


def test_lines_become_curves_over_the_minutes_that_it_trained(tmp_path: Path) -> None:
    write(tmp_path / "a", [
        at(0, cpu_percent=50.0, host_memory_used_bytes=2**30, **{"gpu.1.percent": 90}),
        at(10, cpu_percent=60.0, host_memory_used_bytes=2**31),
        # Stopped for half an hour, and resumed: that counts as 30 seconds.
        at(1810, cpu_percent=70.0, **{"gpu.1.percent": 80, "gpu.99.percent": 1, "gpu.0.nonsense": 1})])
    found = machine_use(Folder(tmp_path), tmp_path / "a")
    assert {(each.key, curve.name): (curve.minutes, curve.values) for each in found.figures
            for curve in each.curves} == {
        ("cpu_percent", ""): ([0, 0.167, 0.667], [50, 60, 70]),
        ("host_memory_used_bytes", ""): ([0, 0.167], [1, 2]),
        ("gpu.percent", "card 1"): ([0, 0.667], [90, 80])}
    figure = drawn(found.figures[0])
    assert figure is not None
    assert figure.table is not None
    assert figure.wide.count(">0</text>") == 2, "50 percent are not drawn as nothing"
    assert (figure.table.heads, figure.table.rows[-1]) == (["Minute", "percent"], ["0.667", "70.0"])


@pytest.mark.parametrize("lines", [
    [], [at(0, cpu_percent=True)], [at(0, cpu_percent="9"), {"cpu_percent": 1}, {"time": 3, "cpu_percent": 1}, 7],
    [at(0, cpu_percent=float("nan"))], [{"time": "9" * 400, "cpu_percent": 1}]])
def test_lines_that_are_none_draw_nothing(tmp_path: Path, lines: list[object]) -> None:
    write(tmp_path / "a", lines)
    assert machine_use(Folder(tmp_path), tmp_path / "a").figures == []


def test_the_tab_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    two_runs(folder)
    page = client(folder, monkeypatch)
    assert "Not recorded" in page.get("/run/runs/steps?tab=device").text
    write(folder / "runs/steps", [at(0, cpu_percent=50.0), at(10, cpu_percent=60.0)])
    assert "Processors at work" in page.get("/run/runs/steps?tab=device").text
    assert page.get("/api/device/runs/steps").json()["figures"][0]["curves"][0]["values"] == [50, 60]
