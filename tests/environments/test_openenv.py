"""Environments of openenv: `verify` plays an installed class once more, and not what a server played."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.runs import killed
from workings.config.environment import EnvironmentConfig
from workings.environments.base import Step
from workings.environments.process import EnvironmentProcess
from workings.environments.settings import EnvironmentSettings
from workings.errors import RequestError, RewardError
from workings.evidence.verify import verify
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train import train

pytest.importorskip("openenv", reason="needs openenv 0.10, whose pins do not fit those of this project's tests")

RECIPE = killed.RECIPE.replace("traces.jsonl", "environment").replace("max_length: 64", "max_length: 256").replace(
    "micro_batch: 2", "micro_batch: 4") + """
algorithm: {name: grpo, group: 4, max_new_tokens: 8}
rewards: [{scorer: environment}, {scorer: length, weight: 0.1}]
"""
GAME = '''
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class Guess(Action):
    text: str = Field(max_length=200)


class Hint(Observation):
    hint: str
    guesses: int = 0


class Game(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, most=9):
        self.secret, self.guesses = 1 + seed % most, 0
        return Hint(hint=f"a number from 1 to {most}")

    def step(self, action: Guess, timeout_s=None, **kwargs) -> Hint:
        self.guesses += 1
        number = int(action.text) if action.text.isdecimal() else 0
        right = number == self.secret
        hint = "right" if right else "higher" if number < self.secret else "lower"
        return Hint(hint=hint, guesses=self.guesses, reward=1.0 if right else None, done=right)

    @property
    def state(self):
        return State(step_count=self.guesses)


app = create_app(Game, Guess, Hint, env_name="guessing", max_concurrent_envs=8)
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the installed package `guessing`."""
    (tmp_path / "guessing").mkdir()
    (tmp_path / "guessing" / "__init__.py").write_text(GAME)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def server(package: Path) -> Iterator[str]:
    """The address of the library's own server of that package."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = door.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "uvicorn", "guessing:app", "--port", str(port)], cwd=package)
    try:
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/health").close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def settings(name: str, **options: Any) -> EnvironmentSettings:
    return EnvironmentSettings(config=EnvironmentConfig(name=name, options=options, seconds=300))


@pytest.mark.slow
def test_a_class_and_its_server_reply_the_same(server: str) -> None:
    asked = [settings("openenv:guessing.Game", most=5), settings("openenv", most=5, url=server)]
    assert "guessing sha256:" in asked[0].version
    replies = []
    for one in asked:
        with EnvironmentProcess(one) as process:
            rows = process.tasks(3, 20)
            [prompt, *_] = process.prompts(3, rows)  # one session at a time, although the server has only eight
            assert process.reset([(7, rows[0]), (8, {"id": "x", "reset": {"most": 2}})]) == [
                "hint: a number from 1 to 5\nguesses: 0", "hint: a number from 1 to 2\nguesses: 0"]
            replies.append([prompt, *process.step([(0, " 9 "), (1, "1"), (0, "3"), (1, "1" * 201)])])
            if one.config.server:
                with pytest.raises(RewardError, match=r"its server says CAPACITY_REACHED: .*8/8 sessions"):
                    process.reset([(1, rows[0])] * 9)
    assert replies[0] == replies[1]
    assert replies[0][1:] == [Step("hint: lower\nguesses: 1"), Step("hint: right\nguesses: 1", 1.0, done=True),
                              Step("hint: right\nguesses: 2", 1.0, done=True), Step("", 0.0, done=True)]


@pytest.mark.parametrize(("name", "options", "told"), [
    ("openenv", {}, "needs a class or the address"), ("openenv:guessing.Guess", {}, "does not derive from openenv's"),
    ("openenv:nowhere.Game", {}, "No module named 'nowhere'"), ("openenv:guessing.Game", {"action": "x"}, "no field x"),
    ("openenv", {"url": "http://127.0.0.1:9"}, "cannot ask the server")])
def test_what_cannot_be_played_is_refused(package: Path, name: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        EnvironmentProcess(settings(name, **options)).__enter__()


@pytest.mark.slow
def test_a_run_is_played_again_if_its_class_is_installed_and_not_if_a_server_replied(
        server: str, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    for name, environment in (("class", "name: openenv:guessing.Game, options: {show: hint}"),
                              ("server", f"name: openenv, options: {{show: hint, url: '{server}'}}")):
        recipe = package / f"{name}.yaml"
        recipe.write_text(RECIPE + f"environment: {{{environment}, turns: 3, tasks: 12}}\n")
        run = train(str(recipe), package / name, ["engine=torch", "training.steps=2"]).run
        found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(start=0, steps=2)))
        told[name] = found.level, found.failed, {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    level, failed, checks = told["class"]
    assert (level, failed) == (2, 0), checks
    assert checks["recompute.episodes"].startswith("passed: 16 episodes with 4"), checks
    level, failed, checks = told["server"]
    assert (level, failed) == (1, 0), checks
    assert "a server played its episodes, which is not asked again" in checks["recompute.episodes"]
    assert checks["replay.steps"].startswith("passed"), checks
    # A stranger without the package, or with another version of it, is told so.
    (package / "guessing" / "__init__.py").write_text(GAME.replace("1.0 if right", "2.0 if right"))
    found = verify(package / "class")
    assert (found.level, found.failed) == (1, 0)
