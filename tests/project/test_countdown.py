"""The script for the Countdown table: its reward, and the models that it refuses."""

import json
from argparse import Namespace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from benchmarks.countdown import make_data
from benchmarks.countdown_reward import reward, score, solves
from workings.scoring.items import item_from_json
from workings.scoring.judge import judge
from workings.scoring.settings import ScoringSettings


@pytest.mark.parametrize(("equation", "right"), [
    ("(1 + 2) * 3", True), ("1*3 + 2*3 = 9", False), ("2 + 3 + 1 = 9", False), ("3 * (2 + 1) = 9", True), ("9", False),
    ("9 * 1 / 1", False), ("3 ** 2 * 1", False), ("__import__('os')", False), ("1 / (2 - 2) + 3", False), ("", False),
    ("(" * 500, False)])
def test_an_equation_uses_each_number_once(equation: str, right: bool) -> None:
    assert solves(equation, [1, 2, 3], 9) is right


def test_a_reward_for_the_form_and_for_the_answer() -> None:
    said = ["<think>x</think> <answer>3 * (1 + 2)</answer>", "<answer>3</answer>", "nine", "<answer>3 * (1 + 2)"]
    assert reward([""] * 4, said, nums=[[1, 2, 3]] * 4, target=[9] * 4) == [1.0, 0.1, 0.0, 0.0]


def test_the_whole_equation_of_a_completion_is_scored(tmp_path: Path) -> None:
    for name, row in (("solved", {"query": "q", "completion": "c"}),
                      ("problems", {"nums": [69, 70, 80], "target": 59})):
        parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / f"{name}.parquet")
    make_data(Namespace(out=tmp_path / "out", solved=tmp_path / "solved.parquet", problems_trained=1,
                        problems=tmp_path / "problems.parquet"))
    item = item_from_json(json.loads((tmp_path / "out" / "items.jsonl").read_text()))
    found = judge(item, "<think>69 + 70 = 139</think>\n<answer> (69 + 70) - 80 </answer>", score, ScoringSettings())
    assert (found.score, found.extracted) == (1.0, "(69 + 70) - 80")
