"""What a run's files do not hold: what its process does before the first step and after the last one; its base."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import items, score
from tests.record import synthetic
from tests.ui.making import client, two_runs
from workings.record import phase as phases_module
from workings.record.phase import Phase, phases, read_phases
from workings.record.progress import slow_operation


def test_a_run_says_what_its_process_does_outside_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    run = synthetic.sealed_run(folder / "tiny")
    page = client(folder, monkeypatch)
    with phases(run):
        with slow_operation("taking the first step"):
            assert page.get("/api/live/tiny").json()["phase"] == "taking the first step"
        assert page.get("/api/live/tiny").json()["phase"] == ""  # its log says more
        with slow_operation("answering 600 items"):
            row = page.get("/api/live/tiny").json()
            assert (row["state"], row["phase"]) == ("complete", "answering 600 items")
            assert "answering 600 items" in page.get("/run/tiny").text


def test_a_dead_process_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    with phases(tmp_path / "run"):
        file = next((tmp_path / "cache" / "phases").iterdir())
        told = json.loads(file.read_bytes())
        assert read_phases() == {tmp_path / "run": Phase(**told)}
        file.write_text(json.dumps(told | {"process": "of another process"}))
        assert read_phases() == {}
        file.write_text("{}")
        assert read_phases() == {}
    assert list((tmp_path / "cache" / "phases").iterdir()) == []


def test_no_place_for_it_keeps_no_run_from_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(phases_module, "cache_directory", lambda: tmp_path / "file")
    with phases(tmp_path / "run"), slow_operation("planning"):
        pass


def test_a_base_stands_under_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    two_runs(folder)
    for name, layers in (("plain", 2), ("steps", 3)):
        shape = json.dumps({"family": "gemma", "layers": layers})
        (folder / "runs" / name / "config/model_shape.json").write_text(shape)
    seed = json.loads((folder / "runs/plain/config/resolved.json").read_bytes())["seed"]
    base = score(folder / "runs", "base-tiny", items(60), [False] * 60)
    config = json.loads((base / "eval_config.json").read_bytes())
    config["model"] = {"id": "tiny", "step": 0, "shape": {"layers": 2, "family": "gemma"}, "seed": seed}
    (base / "eval_config.json").write_text(json.dumps(config))
    page = client(folder, monkeypatch)
    rows = {row["name"]: row for row in page.get("/api/runs").json()["rows"]}
    assert [rows[f"runs/{name}"]["base"] for name in ("plain", "steps")] == ["runs/base-tiny", ""]
    assert rows["runs/base-tiny"]["base_of"] == ["runs/plain"]
    shown = page.get("/").text
    assert "2 of 2 runs" in shown
    assert shown.count('href="/run/runs/base-tiny"') == 1
    assert "that belong to no run" not in shown
