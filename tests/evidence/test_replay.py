"""Steps replayed: what is the same, what is not, what must not be, and what a verifier makes of it."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proof import replay as proof
from tests.evidence import fakes_about_runs, records
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE, refused
from workings.cli.main import app
from workings.errors import RequestError
from workings.evaluation.predictions import read_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.evidence.replay import outcomes
from workings.evidence.replay.comparison import relative_difference, replay_sentence, wrong_steps
from workings.evidence.replay.conditions import BITWISE, TOLERANCES, tolerance_for
from workings.evidence.replay.step_selection import StepRange, all_steps, choose_numbers, chosen_steps, step_coverage
from workings.evidence.replay.steps import without_a_row
from workings.evidence.verify import verify
from workings.models.batch import Batch
from workings.runs import replay
from workings.runs.replay import ReplayRequest, replay_run
from workings.scoring.items import Item


@pytest.fixture(scope="module", autouse=True)
def surroundings() -> Iterator[None]:
    """The other package's engine, and a checkout that does not change while the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        pin_code_version(patch)
        yield
    sys.modules.pop("other_engine", None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, its data, and a run of twelve steps with checkpoints 9 and 12; never changed."""
    folder = tmp_path_factory.mktemp("trained")
    records.small_run(folder, "a", "evaluation.base=false")
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy" / "runs" / "a"


def level_3(run: Path, **request: Any) -> dict[str, tuple[str, str]]:
    """Verdict and text of every check, by id."""
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(**request)))
    return {check.id: (str(check.verdict), check.text) for check in found.checks} | {
        "level": (str(found.level), f"{found.failed} failed")}


def test_equal_conditions_give_equal_bits(run: Path) -> None:
    facts = replay_run(run, ReplayRequest())
    assert (facts["mode"], wrong_steps(facts)) == ("bitwise", [])
    assert facts["conditions"]["differing"] == []
    assert [line["step"] for line in facts["lines"]] == [10, 11, 12]
    assert all(line["recorded"] == line["replayed"] and line["same_batch"] for line in facts["lines"])
    assert facts["weights"] == {"step": 12, "files": 2, "files_identical": 2, "tensors": 1, "largest_difference": 0.0,
                                "tensor": "none"}
    assert {name: control["outside"] for name, control in facts["controls"].items()} == dict.fromkeys(
        ("seed", "learning_rate", "rows", "checkpoint"), True)
    assert facts["controls"]["learning_rate"]["steps"] == 2, "a rate shows in the loss of the step after it"
    assert facts["predictions"] == {"units": ["eval/items"], "asked": 10, "same": 10}, "eight and two are batches"
    assert replay_sentence(facts).startswith(
        "Steps 10 to 12 replayed from checkpoint step_000009, judged bitwise, because processor, threads, versions and "
        "code are the recorded ones: passed (equal")


def test_earlier_turns_are_asked_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = EvaluationRecord(run / "eval" / "items")
    row = {**next(read_predictions(unit.path / "predictions.jsonl"))[0], "item_extra": json.dumps(
        {"history": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]})}
    asked: list[Item] = []
    monkeypatch.setattr(outcomes, "generate_batch", lambda session, items, settings: asked.extend(items) or [])
    outcomes.generate_again(None, outcomes.RecordedEvaluation(
        unit="eval/items", config=unit.config, rows=[row], by_batch=False), [0])
    assert [turn.text for turn in asked[0].history] == ["1+1", "2"]


def test_from_the_first_weights_and_only_some_steps(run: Path) -> None:
    facts = replay_run(run, ReplayRequest(start=0, steps=4, predictions=0))
    assert wrong_steps(facts) == []
    assert facts["start"] == "random weights of seed 5"
    assert [line["step"] for line in facts["lines"]] == [1, 2, 3, 4]
    assert facts["weights"] == {"absent": "the run kept no checkpoint of step 4"}
    assert facts["predictions"] == {"absent": "none requested"}


def test_one_step_says_nothing_about_the_learning_rate(run: Path) -> None:
    assert level_3(run, steps=1, predictions=0)["replay.controls"] == (
        "not_checked", "within the tolerance, so these steps cannot tell them apart: learning_rate")


def test_the_data_are_found_by_digest_and_nowhere_else(run: Path, tmp_path: Path) -> None:
    traces = run.parent.parent / "asked" / "traces.jsonl"
    moved = traces.rename(tmp_path / "elsewhere.jsonl")
    with pytest.raises(RequestError, match="--data FILE gives its path"):
        replay_run(run, ReplayRequest())
    checks = level_3(run)
    assert checks["replay.steps"][0] == checks["replay.controls"][0] == "not_checked"
    assert "--data FILE" in checks["replay.steps"][1]
    assert checks["level"] == ("2", "0 failed"), "a skipped check never counts as passed"
    assert wrong_steps(replay_run(run, ReplayRequest(data=moved, predictions=0))) == []
    other = tmp_path / "other.jsonl"
    other.write_bytes(moved.read_bytes().replace(b"carry", b"Carry"))
    with pytest.raises(RequestError, match="the data that the run was trained on"):
        replay_run(run, ReplayRequest(data=other))


def test_a_checkpoint_that_is_not_there_is_named(run: Path) -> None:
    for step in (6, 12):
        with pytest.raises(RequestError, match="with recorded steps after it: 0, 9"):
            replay_run(run, ReplayRequest(start=step))


def test_a_seed_draws_the_steps_and_the_answer_says_what_that_misses(run: Path) -> None:
    told = level_3(run, drawn=True, steps=3, seed=1)["replay.coverage"]
    assert told[0] == "not_checked", "no one asked for the whole run"
    assert told[1].startswith("seed 1: 3 of 12 steps recomputed; missed: wrong steps within ")
    without = {check.id: check for check in verify(run, level=3).checks}
    assert without["replay.steps"].verdict == "not_checked"
    assert "no engine was given" in without["replay.steps"].text


def test_the_whole_run(run: Path) -> None:
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(whole=True, seed=1)))
    checks = {check.id: (check.verdict, check.text) for check in found.checks}
    assert {"replay.steps", "replay.controls", "replay.predictions", "replay.coverage"} <= checks.keys()
    assert (found.level, found.failed) == (3, 0)
    assert checks["replay.steps"][1].startswith("12 steps in 2 stretches replayed from 2 kept states")
    assert checks["replay.coverage"][0] == "passed"
    assert "missed: nothing, every step was recomputed" in checks["replay.coverage"][1]
    coverage = found.to_json()["coverage"]["."]
    assert coverage["steps"] == {"steps": 12, "replayed": 12, "ranges": 2, "not_replayed": []}
    assert all(row["asked"] == row["items"] for row in coverage["answers"])


def test_a_splice_that_ten_steps_from_the_earliest_checkpoint_miss(run: Path) -> None:
    records.tell(run.parent, fakes_about_runs.better(5, 6))
    missed = level_3(run)
    assert missed["level"] == ("3", "0 failed")
    assert missed["replay.coverage"] == ("not_checked", "the recomputed parts were not chosen by a seed")
    assert "step 5: loss" in level_3(run, whole=True)["replay.steps"][1]


def test_nothing_of_a_record_that_fails_is_opened(run: Path) -> None:
    (run / "train" / "training_log.txt").write_text("changed")
    found = verify(run, level=3, replay=lambda path, _: pytest.fail("replayed"))
    assert {check.text for check in found.checks if check.level == 3} == {
        "not replayed: checks of lower levels failed"}


def test_an_engine_that_gives_up_is_said(run: Path) -> None:
    def too_large(path: Path, samples: tuple[Path, ...]) -> dict[str, Any]:
        raise MemoryError("1,000 GiB were needed")

    found = verify(run, level=3, replay=too_large)
    assert (found.level, found.failed) == (2, 0)
    assert any("1,000 GiB were needed" in check.text for check in found.checks if check.id == "replay.steps")


def test_a_zip_is_not_unpacked_for_it(run: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", run)
    found = verify(Path(archive), level=3, replay=lambda path, _: pytest.fail("replayed"))
    assert next(check.verdict for check in found.checks if check.id == "replay.steps") == "not_checked"
    assert found.level == 2


@pytest.mark.parametrize("name", fakes_about_runs.ONLY_A_REPLAY)
def test_inventions_that_levels_0_to_2_cannot_see(run: Path, name: str) -> None:
    fake, caught = fakes_about_runs.ONLY_A_REPLAY[name]
    records.tell(run.parent, fake)
    assert verify(run).failed == 0
    checks = level_3(run)
    assert checks[caught][0] == "failed"
    assert checks["level"][0] == "2"


def test_other_conditions_are_judged_by_a_tolerance_over_the_steps_that_it_was_measured_over(
        run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = replay.environment.collect()
    there = here | {"machine": here["machine"] | {"cpu_model": "another processor", "usable_cores": 64}}
    monkeypatch.setattr(replay.environment, "collect", lambda: there)
    with pytest.raises(RequestError, match="that have a tolerance"):
        replay_run(run, ReplayRequest())  # this engine computes in float64
    monkeypatch.setitem(TOLERANCES, "float64", TOLERANCES["float32"])
    monkeypatch.setattr(replay.conditions, "MEASURED_STEPS", 4)
    checks = level_3(run, whole=True, seed=1)
    assert "these differ from the recorded run: cpu_model, usable_cores: passed (equal to the bit)" in checks[
        "replay.steps"][1]
    assert "7 of 12 steps recomputed" in checks["replay.coverage"][1]
    assert "missed: wrong steps within 5 to 9" in checks["replay.coverage"][1]
    assert (checks["replay.coverage"][0], checks["level"][0]) == ("not_checked", "2")


def test_the_tolerances_are_those_that_were_measured() -> None:
    formats = json.loads((Path(proof.__file__).parent / "replay.json").read_text())["values"]["formats"]
    assert formats.keys() == TOLERANCES.keys()
    for name, found in formats.items():
        assert proof.problems(name, found) == []
        assert found["controls_inside"] == []


def test_between_a_cpu_and_an_accelerator_nothing_was_measured() -> None:
    cpu, gpu = {"device": "1 x EPYC (9th gen) (cpu)"}, {"device": "1 x H100 (gpu)"}
    for dtypes, name in (({"parameters": "float32", "compute": "fp32"}, "float32"),
                         ({"parameters": "fp32", "compute": "bf16"}, "bfloat16"),
                         ({"parameters": "bfloat16", "compute": "bfloat16"}, "bfloat16 weights")):
        assert tolerance_for(dtypes, cpu, cpu) == TOLERANCES[name]
        assert tolerance_for(dtypes, gpu, cpu) is None
    assert tolerance_for({"parameters": "float16", "compute": "float16"}, cpu, cpu) is None


def test_the_verb_says_why_a_level_is_not_reached(run: Path) -> None:
    (run.parent.parent / "asked" / "traces.jsonl").unlink()
    told = CliRunner().invoke(app, ["verify", str(run), "--level", "3", "--json"])
    assert told.exit_code == 1
    assert "level 3 was asked for, and the record reaches level 2: cannot be replayed here" in told.output
    assert "a level from 0 to 3" in refused("verify", run, "--level", "4")
    assert "a number of steps, or the whole run" in refused("verify", run, "--level", "3", "--steps", "3", "--whole")


def test_differences_by_hand() -> None:
    assert relative_difference(1.0, 1.0) == 0.0
    assert relative_difference(2.0, 1.0) == 0.5
    assert relative_difference(1.0, {"absent": "not a finite number"}) == 1e9
    assert relative_difference(0.0, 1e-300) == 1.0
    line = {"step": 1, "same_batch": True, "recorded": {"loss": 1.0, "grad_norm": 2.0},
            "replayed": {"loss": 1.0 + 1e-12, "grad_norm": 2.0}}
    facts = {"tolerance": BITWISE.to_json(), "lines": [line], "weights": {"absent": "x"}}
    assert "step 1: loss 1, recorded 1 (relative difference 1e-12, allowed 0)" in wrong_steps(facts)
    assert wrong_steps(facts | {"tolerance": BITWISE.to_json() | {"loss": 1e-9}}) == []
    other = wrong_steps(facts | {"lines": [line | {"same_batch": False}]})
    assert other[0] == "step 1: another batch than the recorded one"


def test_a_row_left_out_is_neither_seen_nor_learned() -> None:
    ones = np.ones((1, 2, 4), np.int32)
    segments = np.array([[[1, 1, 2, 2], [1, 1, 1, 0]]], np.int32)
    batch = Batch(tokens=ones, targets=ones, loss_mask=ones.astype(np.float32), positions=ones, segment_ids=segments)
    left = without_a_row(batch)
    assert left.segment_ids.tolist() == [[[0, 0, 2, 2], [1, 1, 1, 0]]]
    assert left.loss_mask.tolist() == [[[0, 0, 1, 1], [1, 1, 1, 1]]]
    assert batch.loss_mask.sum() == 8, "the batch itself stays"


# --- what is selected ------------------------------------------------------------------------------------------

def test_a_seed_draws_the_same_everywhere_and_evenly() -> None:
    assert choose_numbers(17, "steps", 10, 3) == [4, 5, 7]
    assert choose_numbers(17, "answers", 10, 3) != choose_numbers(18, "answers", 10, 3)
    assert choose_numbers(0, "steps", 4, 4) == [0, 1, 2, 3]
    times = [sum(number in choose_numbers(seed, "steps", 5, 2) for seed in range(2000)) for number in range(5)]
    assert all(abs(each - 800) < 4 * (2000 * 0.4 * 0.6) ** 0.5 for each in times), "within four deviations"


def test_all_steps_and_a_few() -> None:
    def bounds(ranges: tuple[StepRange, ...]) -> list[tuple[int, int]]:
        return [(each.start, each.end) for each in ranges]

    assert bounds(all_steps([0, 7, 20], 31, None)) == [(0, 7), (7, 20), (20, 31)]
    few = all_steps([0, 7, 20], 31, 10)
    assert bounds(few) == [(0, 7), (7, 17), (20, 30)]
    assert step_coverage(few, 31) == {"steps": 31, "replayed": 27, "ranges": 3, "not_replayed": [[18, 20], [31, 31]]}
    assert {each.start for seed in range(20) for each in chosen_steps([0, 12, 15, 40], 41, 3, seed)} == {0, 12, 15}, \
        "one step alone is not selected"
    assert bounds(chosen_steps([0], 1, 10, seed=5)) == [(0, 1)]
