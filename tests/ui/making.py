"""The page's application over a folder of runs made for a test, asked without a browser."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.record import synthetic
from tests.reports import making as reported
from workings.cli.main import app as cli
from workings.record.layout import METRICS
from workings.ui.app import make_app
from workings.ui.routes import data
from workings.ui.site import Site

PORT, TOKEN = 8123, "a-token-of-the-test"
BASE = f"http://127.0.0.1:{PORT}"
MARGINS = {1: 0.0, 2: 1.5, 3: 3.0}


def two_runs(folder: Path) -> None:
    """`runs/plain` with 30 and `runs/steps` with 54 of 60 items right."""
    reported.two_runs(folder / "runs")


def unsealed(run: Path, partial: Path) -> Path:
    """A copy of a run as it is before it is sealed."""
    return shutil.copytree(run, partial, ignore=shutil.ignore_patterns("SEAL.json", "SHA256SUMS", "run_manifest.json"))


@cache
def _page() -> tuple[FastAPI, Site]:
    """One application for all tests of this process, because building its routes takes longer than making a page."""
    site = Site.over(Path())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "over", lambda root: site)
        return make_app(Path(), token=TOKEN, port=PORT), site


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, *, token: str = TOKEN) -> TestClient:
    """Someone who has the link; what the page keeps goes next to the folder."""
    monkeypatch.setenv("WORKINGS_CACHE", str(folder.with_name(f"{folder.name}-cache")))
    app, site = _page()
    # Everything of another folder but the templates, which would be compiled again.
    vars(site).update(vars(Site.over(folder)) | {"templates": site.templates})
    return TestClient(app, base_url=BASE, headers={"authorization": f"Bearer {token}"} if token else {},
                      raise_server_exceptions=True)


def answer_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the data page run in this process, where the page starts a child for each."""
    def ask(words: list[str], cwd: Path) -> Any:
        monkeypatch.chdir(cwd)
        return json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)

    monkeypatch.setattr(data, "ask", ask)


def paired_run(final: Path) -> Path:
    """A run of three steps that says it learned from three pairs."""
    algorithm = {"name": "dpo", "beta": 0.1}
    run = synthetic.sealed_run(final, done=3, facts={"pairs": 3})
    (run / "config/resolved.json").write_text(json.dumps(synthetic.CONFIG | {"algorithm": algorithm}))
    lines = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    write(run / METRICS, [line | {
        "loss": 0.6931 / line["step"], "margin": MARGINS[line["step"]], "accuracy": float(line["step"] > 1),
        "chosen_reward": 1.0, "rejected_reward": 1.0 - MARGINS[line["step"]], "chosen_log_prob": -9.0,
        "rejected_log_prob": -8.0} for line in lines])
    return run


def write(path: Path, lines: list[dict]) -> None:
    """Write a file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
