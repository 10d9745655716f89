"""One question's answers through the training, from a run's log."""

import shutil
from pathlib import Path

from starlette.testclient import TestClient

from workings.ui.time_line import MAX_ANSWERS, time_lines

ANSWERS = {10: "<reasoning>8+9+1=17</reasoning>", 20: "it's \"18\"\n(stop)", 30: "18"}


def log(run: Path, lines: list[str]) -> None:
    (run / "train").mkdir(parents=True, exist_ok=True)
    (run / "train/training_log.txt").write_text("\n".join(["step 1/30 loss 2", *lines, "held out x"]) + "\n")


def sample(step: int, text: str, prompt: str = "What is 8+9+1?") -> str:
    return f"sample after step {step}: {prompt!r} -> {text!r} (stop)"


def test_answers_are_found_as_they_were_written(tmp_path: Path) -> None:
    log(tmp_path, [*(sample(step, text) for step, text in ANSWERS.items()), sample(10, "once", "Another?"),
                   "sample after step 40: __import__('os') -> 'x' (stop)", sample(30, "replayed")])
    line, = time_lines(tmp_path)
    assert line.prompt == "What is 8+9+1?"
    assert {answer.step: answer.text for answer in line.answers} == ANSWERS | {30: "replayed"}
    assert time_lines(tmp_path / "none") == []


def test_of_many_answers_the_first_and_the_last_are_shown(tmp_path: Path) -> None:
    log(tmp_path, [sample(step, str(step)) for step in range(1, 1_001)])
    steps = [answer.step for answer in time_lines(tmp_path)[0].answers]
    assert (len(steps), steps[0], steps[-1], steps == sorted(set(steps))) == (MAX_ANSWERS, 1, 1_000, True)


def test_the_page_shows_them_with_the_wrong_step_marked(page: TestClient, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "runs/steps/eval")
    log(tmp_path / "runs/steps", [sample(step, text) for step, text in ANSWERS.items()])
    shown = page.get("/run/runs/steps?tab=samples").text
    assert "During training" in shown
    assert '<span class="wrong-step">8+9+1=17</span>' in shown
    assert "During training" not in page.get("/run/runs/plain?tab=samples").text
