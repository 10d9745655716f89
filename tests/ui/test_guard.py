"""Only this machine's browser with the printed link gets in, on every route."""

import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from tests.ui.making import BASE, TOKEN, client
from workings.ui.serve import kept_token, serve

ROUTES = ["/", "/run/runs/plain", "/compare?run=runs/plain&run=runs/steps", "/data", "/plan", "/start", "/jobs",
          "/api/runs", "/api/live/runs/plain", "/api/openapi.json", "/static/page.js", "/static/base.css",
          "/export/run/runs/plain", "/nothing"]


def test_every_route_needs_the_token_and_forbids_inline_code_and_frames(page: TestClient) -> None:
    for route in ROUTES:
        assert page.get(route, headers={"authorization": "Bearer wrong"}).status_code == 401, route
        for answer in (page.get(route, headers={"authorization": ""}), page.get(route, headers={"origin": BASE})):
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.status_code == (404 if route == "/nothing" else 200), route


def test_the_link_becomes_a_strict_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = client(tmp_path, monkeypatch, token="")
    answer = browser.get(f"/jobs?x=1&token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?x=1")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert browser.get("/jobs").status_code == 200
    other = client(tmp_path, monkeypatch, token="").get(f"//elsewhere.example/?token={TOKEN}", follow_redirects=False)
    assert other.headers.get("location", "/").startswith("/")
    assert not other.headers.get("location", "/").startswith("//")


@pytest.mark.parametrize("host", ["elsewhere.example:8123", "127.0.0.1:9999", "127.0.0.1", "localhost.evil:8123"])
def test_another_host_name_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    assert client(tmp_path, monkeypatch).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("headers", [
    {"origin": "http://elsewhere.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9999"},
    {"origin": "https://127.0.0.1:8123"}, {"sec-fetch-site": "cross-site"}])
def test_another_site_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    page = client(tmp_path, monkeypatch)
    assert page.post("/api/quickstart", data={"out": "x"}, headers=headers).status_code == 403
    assert page.get("/api/jobs").json() == []


def test_whoever_follows_the_link_at_once_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    met: list[str] = []

    def at_once(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        place = sockets[0].getsockname()
        with socket.create_connection(place):
            met.append(place[0])
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", at_once)
    serve(tmp_path, 0, open_browser=False, say=lambda text: None)
    assert met == ["127.0.0.1"]
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


def test_links_stay_good_until_a_new_token_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    first = kept_token(tmp_path / "runs")
    assert kept_token(tmp_path / "runs") == first
    assert kept_token(tmp_path / "others") != first
    (file,) = [path for path in (tmp_path / "cache").rglob("token") if path.read_text().strip() == first]
    assert file.stat().st_mode & 0o777 == 0o600
    second = kept_token(tmp_path / "runs", new=True)
    assert second != first
    assert kept_token(tmp_path / "runs") == second
