"""A run that learned from a teacher, next to that teacher and with what only its engine can say."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import records
from tests.evidence.fakes import Fake, made_again
from tests.evidence.fakes_elsewhere import another_log_prob_thoroughly, teacher, weights
from tests.evidence.verdicts import failed, said
from workings.evidence.verify import verify
from workings.runs.replay import ReplayRequest, replay_run

pytestmark = pytest.mark.slow


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """The folder of the student's run, with its teacher's next to it."""
    kept = tmp_path / "kept"
    records.teacher(kept)
    shutil.copytree(kept / "teacher", kept / "runs" / "teacher")
    return kept / "runs" / "student"


def tell(run: Path, fake: Fake) -> None:
    """A fake about the run, sealed again."""
    records.tell(run.parent, fake, "student/")


def test_an_honest_run_verifies_without_weights(honest: Path) -> None:
    found = said(honest)
    assert verify(honest).level == 2
    assert found["consistency.teacher"][1].startswith("run teacher, root ")
    assert found["consistency.prompts"][1].endswith("rewards: none")
    assert not any("another root" in check.text for check in verify(honest.parent).checks)


def test_a_root_that_is_not_that_of_the_run_beside_it_is_said(honest: Path) -> None:
    tell(honest, teacher(root="0" * 64))
    assert any("has the teacher's name and another root" in check.text for check in verify(honest.parent).checks
               if check.id == "consistency.teacher")


@pytest.mark.parametrize("told", [{"run": "another"}, {"tokenizer": "5d" * 32}, {"weights": weights("5d" * 32)}],
                         ids=lambda told: next(iter(told)))
def test_what_is_said_of_a_teacher_is_what_the_run_of_its_root_says(honest: Path, told: dict[str, Any]) -> None:
    tell(honest, teacher(**told))
    assert "consistency.teacher" in failed(honest.parent)


def test_a_thorough_fake_about_the_teacher_is_found_by_taking_the_step_again(honest: Path) -> None:
    """Without weights nothing contradicts it; sampled again, and the teacher asked again, another batch comes out."""
    tell(honest, made_again(another_log_prob_thoroughly))
    assert failed(honest) == set()
    assert failed(honest, level=3, replay=lambda path, _: replay_run(
        path, ReplayRequest(start=0, steps=1))) == {"replay.steps"}
