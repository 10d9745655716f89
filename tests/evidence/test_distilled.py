"""A run that learned from a teacher: what follows from its record, and which fakes about it are caught by whom."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import kept_folders
from tests.evidence import reseal
from tests.runs import distilled
from workings.config.load import check_recipe
from workings.evidence.verify import verify
from workings.evidence.verify.checks import update_metrics
from workings.record.digest import json_digest
from workings.rollouts import arithmetic, rollout_json
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import RolloutShape, batch_of, digest_of
from workings.runs.replay.replay import ReplayRequest, replay_run
from workings.runs.train import train

FIRST = "train/rollouts/step_000001.json"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        recipe = distilled.write(folder, ["training.steps=2"])
        train(str(recipe), folder / "student", ["training.steps=2", "checkpoint.every_steps=1"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("distilled"), "distilled") / "student"


def another_log_prob(run: Path) -> None:
    """The teacher is said to have found a token half a nat likelier."""
    def change(value: dict[str, Any]) -> dict[str, Any]:
        count = learned_tokens(value)
        from_trainer, from_sampler, sampler = (rollout_json.unpack_integers(value[name], count) for name in (
            "reference_bits_from_trainer", "trainer_log_probs", "sampler_log_probs"))
        trainer = from_sampler + sampler
        said = (from_trainer + trainer).view("<f4").copy()
        said[np.argmin(said)] += np.float32(0.5)  # an unlikely one: a log probability stays below 0
        return value | {"reference_bits_from_trainer": rollout_json.pack_integers(said.view("<i4") - trainer)}
    reseal.edit_json(run / FIRST, change)


def learned_tokens(value: dict[str, Any]) -> int:
    return sum(length + (stop >= 0) for length, stop in zip(value["lengths"], value["stop_tokens"], strict=True))


def another_log_prob_thoroughly(run: Path) -> None:
    """The same by the most patient forger: divergence and loss of the log, and the batch's digest, follow from it."""
    another_log_prob(run)
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    prompts = {row["id"]: Prompt.from_json(row) for row in rows}
    rollout = rollout_json.from_json(json.loads((run / FIRST).read_bytes()), prompts)
    recipe = check_recipe(json.loads((run / "config/resolved.json").read_bytes()), "its recipe")
    algorithm: Any = recipe.algorithm

    def follow(logged: list[dict[str, Any]]) -> list[dict[str, Any]]:
        batch = batch_of(rollout, 0, RolloutShape.from_recipe(recipe, algorithm, fsdp=1, pad_id=0), algorithm)
        logged[0] |= arithmetic.rollout_metrics(rollout, ()) | {"batch_digest": digest_of(batch)}
        # The loss as well: the forger computes what the verifier will.
        logged[0] |= {name: value for name, value, _ in update_metrics.expected_metrics(
            algorithm.objective, update_metrics.trainer_log_probs(rollout, batch), batch)}
        return logged
    reseal.edit_lines(run / "train/metrics.jsonl", follow)


def without_the_teacher(run: Path) -> None:
    reseal.edit_json(run / FIRST, lambda value: {
        name: each for name, each in value.items() if name != "reference_bits_from_trainer"})


def invented_rewards(run: Path) -> None:
    reseal.edit_json(run / FIRST, lambda value: value | {
        name: [1.0] * len(value["seeds"]) for name in ("reward", "advantages")} | {
        "rewards": {"answer": [1.0] * len(value["seeds"])}})


def closer_in_the_log(run: Path) -> None:
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [row | {"kl_teacher": 0.1} for row in rows])


def teacher(*, follow: bool, **changes: Any) -> Callable[[Path], None]:
    """A forgery of which model taught; ``follow``: its digest is made again."""
    def forge(run: Path) -> None:
        reseal.edit_json(run / "config/teacher.json", lambda value: value | changes)
        if follow:
            digest = json_digest(json.loads((run / "config/teacher.json").read_bytes()))
            digests = json.loads((run / "data/digests.json").read_bytes()) | {"teacher": digest}
            reseal.edit_json(run / "data/digests.json", lambda value: digests)
    return forge


def imitation_instead(run: Path) -> None:
    reseal.change_config(run, lambda config: config | {"algorithm": {"name": "sft"}})


FORGERIES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "a log probability of the teacher": (
        another_log_prob, {"consistency.rollouts"}),
    "no word of the teacher": (without_the_teacher, {"consistency.rollouts"}),
    "rewards that no one gave": (invented_rewards, {"consistency.rollouts"}),
    "a student that is closer in the log": (closer_in_the_log, {"consistency.rollouts"}),
    "another root of the teacher": (teacher(follow=False, root="0" * 64), {"consistency.teacher"}),
    "another precision of the teacher": (teacher(follow=True, precision="bf16"), {"consistency.teacher"}),
    "weights of another checkpoint of the teacher": (
        teacher(follow=True, checkpoint="step_000999"), {"consistency.teacher"}),
    "a teacher without weights": (teacher(follow=True, weights={}), {"consistency.teacher"}),
    "imitation instead": (imitation_instead, {"consistency.rows"}),
}


def copied(honest: Path, folder: Path) -> Path:
    run = folder / honest.name
    shutil.copytree(honest, run)
    shutil.copy(honest.parent / "attempts.jsonl", folder)
    return run


@pytest.mark.slow
def test_an_honest_run_verifies_without_weights(honest: Path) -> None:
    found = verify(honest)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    assert told["consistency.teacher"].startswith("passed: run teacher, root ")
    assert told["consistency.prompts"].endswith("rewards: none")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES)
def test_a_fake_about_the_teacher_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    run = copied(honest, tmp_path)
    forge(run)
    reseal.reseal(run)
    found = {one.id for one in verify(run).checks if one.verdict == "failed"}
    assert expected <= found, found
    assert not any(check.startswith("integrity") for check in found), "the sums are right: the content is false"


@pytest.mark.slow
def test_a_root_that_is_not_that_of_the_run_beside_it_is_said(honest: Path, tmp_path: Path) -> None:
    run = copied(honest, tmp_path)
    shutil.copytree(honest.parent / "teacher", tmp_path / "teacher")
    assert not any("another root" in check.text for check in verify(tmp_path).checks)
    teacher(follow=True, root="0" * 64)(run)
    reseal.reseal(run)
    said = [check for check in verify(tmp_path).checks if check.id == "consistency.teacher"]
    assert any("has the teacher's name and another root" in check.text for check in said)


@pytest.mark.slow
@pytest.mark.parametrize("told", [{"run": "another"}, {"tokenizer": "5d" * 32}, {"weights": "5d" * 32}], ids=str)
def test_what_is_said_of_a_teacher_is_what_the_run_of_its_root_says(honest: Path, tmp_path: Path,
                                                                    told: dict[str, Any]) -> None:
    run = copied(honest, tmp_path)
    shutil.copytree(honest.parent / "teacher", tmp_path / "teacher")
    if "weights" in told:
        weights = json.loads((run / "config/teacher.json").read_bytes())["weights"]
        told = {"weights": dict.fromkeys(weights, told["weights"])}
    teacher(follow=True, **told)(run)
    reseal.reseal(run)
    assert "consistency.teacher" in {check.id for check in verify(tmp_path).checks if check.verdict == "failed"}


@pytest.mark.slow
def test_a_thorough_fake_about_the_teacher_is_found_by_taking_the_step_again(honest: Path, tmp_path: Path) -> None:
    """Without weights nothing contradicts it; drawn again, and the teacher asked again, another batch comes out."""
    run = copied(honest, tmp_path)
    shutil.copytree(honest.parent / "teacher", tmp_path / "teacher")
    another_log_prob_thoroughly(run)
    reseal.tell_again(run)
    reseal.reseal(run)
    assert verify(run).failed == 0
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(start=0, steps=1)).facts)
    assert {check.id for check in found.checks if check.verdict == "failed"} == {"replay.steps"}
