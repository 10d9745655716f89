"""The page's application over a folder of runs made for a test, asked without a browser."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.evaluation.making import items, score
from tests.record import synthetic
from workings.ui.app import make_app

PORT, TOKEN = 8123, "a-token-of-the-test"
BASE = f"http://127.0.0.1:{PORT}"


def two_runs(folder: Path) -> None:
    """`runs/plain` with 30 and `runs/steps` with 54 of 60 items right: copies of what was made once."""
    shutil.copytree(_made() / "runs", folder / "runs", dirs_exist_ok=True)


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="workings-two-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    asked = items(60)
    for name, right in (("plain", 30), ("steps", 54)):
        run = synthetic.sealed_run(folder / "runs" / name)
        score(run / "eval", "items", asked, [k < right for k in range(60)])
    return folder


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, *, token: str = TOKEN) -> TestClient:
    """Somebody who has the link; what the page keeps goes beside the folder."""
    monkeypatch.setenv("WORKINGS_CACHE", str(folder.with_name(f"{folder.name}-cache")))
    app = make_app(folder, token=TOKEN, port=PORT)
    return TestClient(app, base_url=BASE, headers={"authorization": f"Bearer {token}"} if token else {},
                      raise_server_exceptions=True)
