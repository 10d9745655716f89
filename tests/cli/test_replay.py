"""`workings runs replay`: what it hands on."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from workings.cli.replay import replay_command
from workings.errors import RequestError
from workings.runs.replay import replay


def test_what_is_asked_reaches_the_replay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def stop(run: Path, request: replay.ReplayRequest, say: object) -> None:
        asked.append((run, request))
        raise RequestError("enough")

    monkeypatch.setattr(replay, "replay_run", stop)
    app = typer.Typer()
    app.command()(replay_command)
    CliRunner().invoke(app, [str(tmp_path), "--samples", "one", "--samples", "two", "--device", "cpu", "--fsdp", "2"])
    (run, request), = asked
    assert run == tmp_path
    assert request.samples == (Path("one"), Path("two"))
    assert (request.inputs.device, request.inputs.fsdp) == ("cpu", 2)
