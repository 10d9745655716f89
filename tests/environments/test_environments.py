"""Environments: what they reply by hand-played games, and the limits of the process that they run in."""

import os
from pathlib import Path
from typing import Any

import pytest

from workings.config.environment import EnvironmentConfig
from workings.config.load import check_recipe, load_recipe
from workings.environments.base import Step, task_seed
from workings.environments.process import EnvironmentProcess
from workings.environments.settings import SHIPPED, EnvironmentSettings
from workings.environments.shipped import Calculator, FrozenLake, GuessNumber, distances
from workings.errors import RequestError, RewardError


def settings(folder: Path, **keys: Any) -> EnvironmentSettings:
    return EnvironmentSettings(config=EnvironmentConfig(**keys), base=folder)


def test_the_calculator_pays_for_the_right_operation_once_and_for_the_answer() -> None:
    game = Calculator(digits=2)
    row = {"id": "x", "a": 12, "sign": "*", "b": 34, "expected_answer": "408"}
    assert game.reset(0, row) == "What is 12 * 34?"
    assert game.step("12 + 34 =") == Step("46", 0.0)
    game = Calculator(digits=2)
    game.reset(0, row)
    assert game.step(" 12*34=") == Step("408", 0.2)
    assert game.step("12 * 34 =") == Step("408", 0.0), "a model must not live on asking"
    assert game.step("408.") == Step("", 0.8, done=True)
    assert game.step("409") == Step("", 0.0, done=True)
    assert game.step("I think 408") == Step("", 0.0, done=True)


def test_guesses_are_higher_lower_or_right() -> None:
    replies = {number: game_of().step(str(number)) for number in range(1, 9)}
    secret = next(number for number, reply in replies.items() if reply.done)
    assert replies[secret] == Step("", 1.0, done=True)
    assert all(replies[number] == Step("higher", 0.1) for number in range(1, secret))
    assert all(replies[number] == Step("lower", 0.1) for number in range(secret + 1, 9))
    assert game_of().step("none") == Step("", 0.0, done=True)
    game = game_of()
    game.step(str(secret - 1 or secret + 1))
    assert game.step(str(secret - 1 or secret + 1)).reward == 0, "what the replies exclude earns nothing"


def game_of() -> GuessNumber:
    game = GuessNumber(most=8)
    game.reset(task_seed(17, "guess-000001"), {})
    return game


def test_a_lake_is_walked_over() -> None:
    game = FrozenLake(size=3, holes=1)
    lake = {"id": "x", "lake": "...\n.H.\n..G"}
    assert game.reset(0, lake).endswith("P..\n.H.\n..G")
    assert game.step("left") == Step("P..\n.H.\n..G", 0.0), "a wall"
    assert game.step("right") == Step(".P.\n.H.\n..G", 0.1)
    assert game.step("left") == Step("P..\n.H.\n..G", -0.1)
    assert game.step(" down ").observation == "...\nPH.\n..G"
    assert game.step("right") == Step("", 0.0, done=True), "a hole"
    game.reset(0, lake)
    assert [game.step(move).reward for move in ("down", "down", "right", "right")] == [0.1, 0.1, 0.1, 1.0]


def test_every_lake_has_a_way() -> None:
    for row in FrozenLake(size=4, holes=4).tasks(3, 40):
        lake = row["lake"].split("\n")
        assert (0, 0) in distances(lake)
        assert sum(line.count("H") for line in lake) == 4


@pytest.mark.parametrize("name", SHIPPED)
def test_the_same_seed_makes_the_same_tasks_and_another_one_others(name: str) -> None:
    game: Any = SHIPPED[name][0]()
    made = [[(row, begun := task_seed(seed, row["id"]), game.reset(begun, row)) for row in game.tasks(seed, 5)]
            for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert len({row["id"] for row, *_ in made[0]}) == 5


def test_a_recipe_names_its_environment(tmp_path: Path) -> None:
    words = ["environment={name: frozen-lake, turns: 3, tasks: 9, options: {size: 4}}"]
    asked = load_recipe("guess-number-cpu", words).recipe
    assert asked.environment is not None
    one = EnvironmentSettings(config=asked.environment)
    assert one.recorded() == {"name": "frozen-lake", "version": "1", "options": {"size": 4}, "turns": 3}
    with EnvironmentProcess(one) as process:
        rows = process.tasks(7, asked.environment.tasks)
    assert len(rows) == 9
    assert len(rows[0]["lake"]) == 4 * 4 + 3
    short = load_recipe("guess-number-cpu", ["environment=calculator"]).recipe.environment
    assert short == EnvironmentConfig(name="calculator")
    values = load_recipe("guess-number-cpu").resolved()
    for change, told in (({"rewards": [{"scorer": "answer"}]}, "without its reward"),
                         ({"environment": None}, "without an environment")):
        with pytest.raises(RequestError, match=told):
            check_recipe({key: value for key, value in (values | change).items() if value is not None}, "the test's")


def test_an_environment_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Slow:\n    def reset(self, seed, row):\n        return 'go'\n"
                                     "    def step(self, text):\n        while True:\n            pass\n")
    with EnvironmentProcess(settings(tmp_path, name="own.py:Slow", seconds=0.3)) as process:
        assert process.reset([(1, {"id": "x"})]) == ["go"]
        with pytest.raises(RewardError, match=r"environment own\.py:Slow, step: time limit.*environment\.seconds"):
            process.step([(0, "text")])


def test_an_environment_has_the_memory_that_its_recipe_names(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Large:\n    def reset(self, seed, row):\n"
                                     "        return str(len(bytearray(1 << 30)))\n"
                                     "    def step(self, text):\n        return '', 0.0, True\n")
    with EnvironmentProcess(settings(tmp_path, name="own.py:Large", memory_gib=8.0)) as process:
        assert process.reset([(1, {"id": "x"})]) == [str(1 << 30)]
    with (EnvironmentProcess(settings(tmp_path, name="own.py:Large", memory_gib=1.0)) as process,
          pytest.raises(RewardError, match="MemoryError")):
        process.reset([(1, {"id": "x"})])


def test_a_task_of_reasoning_gym_is_scored_by_its_own_verifier(tmp_path: Path) -> None:
    pytest.importorskip("reasoning_gym", reason="the extra `tasks` is not installed")
    with EnvironmentProcess(settings(tmp_path, name="reasoning-gym:leg_counting")) as process:
        rows = process.tasks(3, 4)
        assert rows == process.tasks(3, 4)
        prompts = process.prompts(3, rows)
        right = prompts[0]["expected_answer"]
        replies = []
        for text in (right, f"<think>{right}1</think><answer>{right}</answer>", right + "1"):
            process.reset([(1, rows[0])])
            replies += process.step([(0, text)])
    assert [(reply.reward == 1.0, reply.done) for reply in replies] == [(True, True), (True, True), (False, True)]


TASKSET = """
import verifiers.v1 as vf

__all__ = ["Backwards"]


class WordData(vf.TaskData):
    answer: str


class WordTask(vf.Task[WordData]):
    @vf.reward(weight=0.5)
    async def exact(self, trace) -> float:
        return float(trace.last_reply.strip() == self.data.answer)

    @vf.reward
    async def short(self, trace{argument}) -> float:
        return float(len(trace.last_reply) < 10)


class Backwards(vf.Taskset[WordTask, vf.TasksetConfig]):
    def load(self):
        for word in ("ab", "cd", "ef"):
            yield WordTask(WordData(prompt=f"Write {word} backwards.", answer=word[::-1],
                                    system_prompt="One word."), self.config.task)
"""


@pytest.mark.slow
def test_a_task_of_verifiers_is_scored_by_its_own_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers", reason="needs verifiers 0.4")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "backwards.py").write_text(TASKSET.replace("{argument}", ""))
    (tmp_path / "in_a_box.py").write_text(TASKSET.replace("{argument}", ", runtime"))
    limits: dict[str, Any] = {"seconds": 300, "memory_gib": 4}
    asked = settings(tmp_path, name="verifiers:backwards", **limits)
    assert "backwards sha256:" in asked.version
    with EnvironmentProcess(asked) as process:
        rows = process.tasks(3, 3)
        assert rows == process.tasks(3, 3) != process.tasks(4, 3)
        [prompt, *_] = process.prompts(3, rows)
        word = prompt["prompt"].split()[1]
        replies = []
        for text in (word[::-1], f" {word[::-1]} and more", "?"):
            process.reset([(1, rows[0])])
            replies += process.step([(0, text)])
    assert prompt["history"] == [{"role": "system", "content": "One word."}]
    assert replies == [Step("", 1.5, done=True), Step("", 0.0, done=True), Step("", 1.0, done=True)]
    for name, told in (("in_a_box", "needs a runtime for short"), ("nowhere", "is no taskset")):
        with pytest.raises(RequestError, match=told):
            EnvironmentProcess(settings(tmp_path, name=f"verifiers:{name}", **limits)).__enter__()
