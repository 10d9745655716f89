"""Runs with an environment: killed between two turns they end bit for bit alike, and episodes are played again."""

from pathlib import Path

import pytest

from tests.runs import killed
from tests.runs.replayed import verified_by_replaying
from tests.runs.runs_helpers import train_refuses
from workings.record.canonical import loads
from workings.runs.train import train

OWN = """class Vowels:
    def __init__(self, *, wanted=3):
        self.wanted = wanted

    def tasks(self, seed, count):
        return [{"id": f"task-{number}", "letter": "aeiou"[number % 5]} for number in range(count)]

    def reset(self, seed, row):
        self.letter, self.turns = row["letter"], 0
        return f"Write {row['letter']}"

    def step(self, text):
        self.turns += 1
        return f"turn {self.turns}", float(text.count(self.letter)) - 0.01 * len(text), self.turns == self.wanted
"""
RECIPE = killed.RECIPE.replace("traces.jsonl", "environment").replace("max_length: 64", "max_length: 256").replace(
    "micro_batch: 2", "micro_batch: 4") + """
algorithm: {name: grpo, group: 8, max_new_tokens: 48}
rewards: [{scorer: environment}, {scorer: length, weight: 0.1}]
"""
TORCH = ("engine=torch",)


def write(folder: Path, environment: str, own: str = OWN) -> Path:
    """The recipe with an environment, next to the user's own file."""
    (folder / "own.py").write_text(own)
    path = folder / "episodes.yaml"
    path.write_text(RECIPE + f"environment: {environment}\n")
    return path


def test_killed_between_two_turns_it_ends_bit_for_bit_the_same(tmp_path: Path, start_forked):
    begun = killed.begin(write(tmp_path, "{name: 'own.py:Vowels', turns: 4, tasks: 6}"), TORCH)
    # Random weights end a quarter of their turns; one that is cut off ends its episode.
    turns = [loads(path.read_bytes())["episodes"]["turns"] for path in sorted((begun[1] / "train/rollouts").iterdir())]
    assert max(turns[2]) > 1, "an episode of the third rollout has several turns"
    # The first turn of the third rollout is drawn, and the environment has not replied yet.
    killed.assert_ends_alike(begun, TORCH, "draw 3 unrewarded", start_forked)


def test_a_shipped_environment_is_played_again_and_its_steps_are_replayed(tmp_path: Path):
    recipe = write(tmp_path, "{name: guess-number, turns: 3, tasks: 12}")
    run = train(str(recipe), tmp_path / "run", [*TORCH, "training.steps=2", "algorithm.max_new_tokens=8"]).run
    told = verified_by_replaying(run, (), start=0, steps=2)
    assert told["recompute.episodes"].startswith("passed: 16 episodes"), told


@pytest.mark.parametrize(("environment", "told"), [
    ("no-such", "environment: no-such"),
    ("{name: guess-number, options: {most: 1}}", "most of at least 2, not 1"),
    ("{name: guess-number, options: {size: 1}}", "unexpected keyword argument 'size'"),
    ("own.py:Missing", "no class Missing"),
    ("other.py:Vowels", "other.py:Vowels"),
])
def test_an_environment_that_cannot_be_played_is_refused_before_the_run(tmp_path: Path, environment: str, told: str):
    train_refuses(write(tmp_path, environment), tmp_path / "run", TORCH, told)


@pytest.mark.parametrize(("line", "told"), [
    ("return f\"turn {self.turns}\", float", "return None, float"),
    ("float(text.count", "float('nan') + float(text.count"),
    ("self.turns += 1", "self.turns += 1 / 0")])
def test_a_reply_that_is_none_ends_the_run_with_a_sentence(tmp_path: Path, line: str, told: str):
    assert line in OWN
    recipe = write(tmp_path, "'own.py:Vowels'", OWN.replace(line, told))
    done = train(str(recipe), tmp_path / "run", TORCH)
    assert done.status == "failed"
    assert done.reason.startswith("environment own.py:Vowels, step: "), done.reason
