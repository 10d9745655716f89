"""The script for the Countdown table: its reward, and the models that it refuses."""

from pathlib import Path

import pytest

from benchmarks.countdown import check_model
from benchmarks.countdown_reward import reward, solves
from workings.errors import RequestError


@pytest.mark.parametrize(("equation", "right"), [
    ("(1 + 2) * 3", True), ("1*3 + 2*3 = 9", False), ("2 + 3 + 1 = 9", False), ("3 * (2 + 1) = 9", True), ("9", False),
    ("9 * 1 / 1", False), ("3 ** 2 * 1", False), ("__import__('os')", False), ("1 / (2 - 2) + 3", False), ("", False),
    ("(" * 500, False)])
def test_an_equation_uses_each_number_once(equation: str, right: bool) -> None:
    assert solves(equation, [1, 2, 3], 9) is right


def test_a_reward_for_the_form_and_for_the_answer() -> None:
    said = ["<think>x</think> <answer>3 * (1 + 2)</answer>", "<answer>3</answer>", "nine", "<answer>3 * (1 + 2)"]
    assert reward([""] * 4, said, nums=[[1, 2, 3]] * 4, expected_answer=["9"] * 4) == [1.0, 0.1, 0.0, 0.0]


def test_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"has no config\.json"):
        check_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30}')
    with pytest.raises(RequestError, match="has another model"):
        check_model(tmp_path)
