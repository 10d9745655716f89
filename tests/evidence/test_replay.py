"""Steps taken again: what is the same, what is not, what must not be, and what a verifier makes of it."""

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
from tests.runs.runs_helpers import OTHER_PACKAGE
from workings.cli.main import app
from workings.errors import RequestError
from workings.evidence.replay.comparison import compare_replay, relative_difference, replay_sentence
from workings.evidence.replay.steps import without_a_row
from workings.evidence.replay.tolerance import BITWISE, TOLERANCES, tolerance_for
from workings.evidence.verify import verify
from workings.models.batch import Batch
from workings.runs.replay import replay
from workings.runs.replay.reopen_run import ReplayInputs
from workings.runs.replay.replay import ReplayRequest, replay_run


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
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(**request)).facts)
    return {check.id: (str(check.verdict), check.text) for check in found.checks} | {
        "level": (str(found.level), f"{found.failed} failed")}


def test_equal_conditions_give_equal_bits(run: Path) -> None:
    facts = replay_run(run, ReplayRequest()).facts
    assert (facts["verdict"], facts["mode"], facts["reasons"]) == ("passed", "bitwise", [])
    assert facts["conditions"]["differing"] == []
    assert [line["step"] for line in facts["lines"]] == [10, 11, 12]
    assert all(line["recorded"] == line["replayed"] and line["same_batch"] for line in facts["lines"])
    assert facts["weights"] == {"step": 12, "files": 2, "files_identical": 2, "tensors": 1, "largest_difference": 0.0,
                                "tensor": "none"}
    assert {name: control["outside"] for name, control in facts["controls"].items()} == dict.fromkeys(
        ("seed", "learning_rate", "rows", "checkpoint"), True)
    assert facts["controls"]["learning_rate"]["steps"] == 2, "a rate shows in the loss of the step after it"
    assert facts["predictions"] == {"units": ["eval/items"], "asked": 10, "same": 10}, "eight and two are batches"
    assert facts["sentence"].startswith("Steps 10 to 12 replayed from checkpoint step_000009, judged bitwise, because "
                                        "processor, threads, versions and code are the recorded ones: passed (equal")


def test_from_the_first_weights_and_only_some_steps(run: Path) -> None:
    facts = replay_run(run, ReplayRequest(start=0, steps=4, predictions=0)).facts
    assert facts["verdict"] == "passed"
    assert facts["start"] == "random weights of seed 5"
    assert [line["step"] for line in facts["lines"]] == [1, 2, 3, 4]
    assert facts["weights"] == {"absent": "the run kept no checkpoint of step 4"}
    assert facts["predictions"] == {"absent": "none were asked for"}


def test_one_step_says_nothing_about_the_learning_rate(run: Path) -> None:
    facts = replay_run(run, ReplayRequest(steps=1, predictions=0)).facts
    assert facts["verdict"] == "inconclusive"
    assert facts["reasons"] == ["control 'learning_rate' stayed within the tolerance"]
    assert level_3(run, steps=1, predictions=0)["replay.controls"][0] == "not_checked"


def test_the_data_are_found_by_digest_and_nowhere_else(run: Path, tmp_path: Path) -> None:
    traces = run.parent.parent / "asked" / "traces.jsonl"
    moved = traces.rename(tmp_path / "elsewhere.jsonl")
    with pytest.raises(RequestError, match="--data FILE gives its path"):
        replay_run(run, ReplayRequest())
    checks = level_3(run)
    assert checks["replay.steps"][0] == checks["replay.controls"][0] == "not_checked"
    assert "--data FILE" in checks["replay.steps"][1]
    assert checks["level"] == ("2", "0 failed"), "a skipped check never counts as passed"
    assert replay_run(run, ReplayRequest(inputs=ReplayInputs(data=moved), predictions=0)).facts["verdict"] == "passed"
    other = tmp_path / "other.jsonl"
    other.write_bytes(moved.read_bytes().replace(b"carry", b"Carry"))
    with pytest.raises(RequestError, match="the data that the run was trained on"):
        replay_run(run, ReplayRequest(inputs=ReplayInputs(data=other)))


def test_a_checkpoint_that_is_not_there_is_named(run: Path) -> None:
    for step in (6, 12):
        with pytest.raises(RequestError, match="with recorded steps after it: 0, 9"):
            replay_run(run, ReplayRequest(start=step))


def test_level_3_takes_the_steps_again(run: Path) -> None:
    checks = level_3(run)
    assert checks["level"] == ("3", "0 failed")
    assert {name for name in checks if name.startswith("replay.")} == {
        "replay.steps", "replay.controls", "replay.predictions", "replay.coverage"}
    assert checks["replay.coverage"] == ("not_checked", "what was taken again was not drawn")
    without = {check.id: check for check in verify(run, level=3).checks}
    assert without["replay.steps"].verdict == "not_checked"
    assert "no engine was given" in without["replay.steps"].text


def test_a_seed_draws_the_steps_and_the_answer_says_what_that_misses(run: Path) -> None:
    told = level_3(run, drawn=True, steps=3, seed=1)["replay.coverage"]
    assert told[0] == "not_checked", "no one asked for a confidence"
    assert told[1].startswith("seed 1: 3 of 12 steps taken again, 1 of 2 stretches behind kept states; 2 wrong steps "
                              "in a row: found with probability 0.000 wherever they are")
    both = {level_3(run, drawn=True, steps=3, seed=seed)["replay.steps"][1][:15] for seed in range(4)}
    assert both == {"Steps 1 to 3 re", "Steps 10 to 12 "}


def test_as_many_steps_as_a_confidence_needs(run: Path) -> None:
    checks = level_3(run, confidence=0.95, seed=1)
    assert checks["level"] == ("3", "0 failed")
    assert checks["replay.steps"][1].startswith("12 steps in 2 stretches replayed from 2 kept states")
    assert checks["replay.coverage"][0] == "passed"
    assert "missed: nothing, every step was taken again" in checks["replay.coverage"][1]
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(confidence=0.4, seed=1)).facts)
    drawn = found.to_json()["coverage"]["."]
    assert {key: drawn["steps"][key] for key in ("steps", "replayed", "drawn", "not_replayed", "found", "joint")} == {
        "steps": 12, "replayed": 12, "drawn": 2, "not_replayed": [], "found": 1.0, "joint": 1.0}


def test_a_splice_that_ten_steps_from_the_earliest_checkpoint_miss(run: Path) -> None:
    records.tell(run.parent, fakes_about_runs.better(5, 6))
    assert level_3(run)["level"] == ("3", "0 failed")
    assert "step 5: loss" in level_3(run, confidence=0.95)["replay.steps"][1]


def test_within_a_tolerance_no_more_steps_than_it_was_measured_over(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = replay.environment.collect()
    there = here | {"machine": here["machine"] | {"cpu_model": "another processor"}}
    monkeypatch.setattr(replay.environment, "collect", lambda: there)
    monkeypatch.setitem(TOLERANCES, "float64", TOLERANCES["float32"])
    monkeypatch.setattr(replay, "MEASURED_STEPS", 4)
    checks = level_3(run, confidence=0.95, seed=1)
    assert "7 of 12 steps taken again" in checks["replay.coverage"][1]
    assert "missed: wrong steps within 5 to 9" in checks["replay.coverage"][1]
    assert (checks["replay.coverage"][0], checks["level"][0]) == ("not_checked", "2")


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


def test_other_conditions_are_judged_by_a_tolerance_and_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = replay.environment.collect()
    there = here | {"machine": here["machine"] | {"cpu_model": "another processor", "usable_cores": 64}}
    monkeypatch.setattr(replay.environment, "collect", lambda: there)
    with pytest.raises(RequestError, match="that have a tolerance"):
        replay_run(run, ReplayRequest())  # this engine computes in float64
    monkeypatch.setitem(TOLERANCES, "float64", TOLERANCES["float32"])
    facts = replay_run(run, ReplayRequest()).facts
    assert (facts["mode"], facts["verdict"]) == ("tolerance", "passed")
    assert facts["conditions"]["differing"] == ["cpu_model", "usable_cores"]
    assert "these differ from the recorded run: cpu_model, usable_cores: passed (equal to the bit)" in facts["sentence"]


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


def test_the_verb_says_it_all(trained: Path, run: Path, workings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(OTHER_PACKAGE))
    # a child sees the real checkout, whose commit is another than the recorded one: float64 has no tolerance
    refused = workings("runs", "replay", run, check=False)
    assert refused.returncode == 2
    assert "a number format and devices that have a tolerance" in refused.stderr
    assert workings("runs", "replay", run, "--from", "6", check=False).returncode == 2
    told = workings("verify", run, "--level", "3", "--json", check=False)
    assert told.returncode == 1
    assert "level 3 was asked for, and the record reaches level 2: cannot be replayed here" in told.stderr
    values = json.loads(told.stdout.splitlines()[-1])
    assert values["level"] == 2
    assert workings("verify", run, "--level", "3", "--require-level", "3", check=False).returncode == 3
    assert workings("verify", run, "--level", "4", check=False).returncode == 2


@pytest.mark.parametrize(("words", "expected"), [
    (("--seed", "3"), "level 3, which recomputes steps"),
    (("--level", "3", "--steps", "3", "--confidence", "0.9"), "a confidence that decides how many"),
    (("--level", "3", "--splice", "0.2"), "a confidence next to it"),
    (("--level", "3", "--confidence", "1"), "a confidence above 0 and below 1"),
    (("--level", "3", "--confidence", "0.9", "--splice", "0"), "a share above 0"),
])
def test_words_that_mean_nothing_together(run: Path, words: tuple[str, ...], expected: str) -> None:
    told = CliRunner().invoke(app, ["verify", str(run), *words])
    assert isinstance(told.exception, RequestError)
    assert expected in told.exception.expected


def test_differences_by_hand() -> None:
    assert relative_difference(1.0, 1.0) == 0.0
    assert relative_difference(2.0, 1.0) == 0.5
    assert relative_difference(1.0, {"absent": "not a finite number"}) == 1e9
    assert relative_difference(0.0, 1e-300) == 1.0
    line = {"step": 1, "same_batch": True, "recorded": {"loss": 1.0, "grad_norm": 2.0},
            "replayed": {"loss": 1.0 + 1e-12, "grad_norm": 2.0}}
    facts = {"tolerance": BITWISE.to_json(), "lines": [line], "weights": {"absent": "x"}, "start": "x",
             "predictions": {"absent": "x"}, "controls": {}, "mode": "bitwise",
             "conditions": {"differing": [], "here": {}}}
    assert compare_replay(facts)[0] == "failed"
    assert compare_replay(facts | {"tolerance": BITWISE.to_json() | {"loss": 1e-9}}) == ("passed", [])
    assert compare_replay(facts | {"lines": []}) == ("inconclusive", ["no step was replayed"])
    other = compare_replay(facts | {"lines": [line | {"same_batch": False}]})
    assert other[1][0] == "step 1: another batch than the recorded one"
    assert replay_sentence(facts | {"lines": []}).startswith("No step replayed from x")


def test_a_row_left_out_is_neither_seen_nor_learned() -> None:
    ones = np.ones((1, 2, 4), np.int32)
    segments = np.array([[[1, 1, 2, 2], [1, 1, 1, 0]]], np.int32)
    batch = Batch(tokens=ones, targets=ones, loss_mask=ones.astype(np.float32), positions=ones, segment_ids=segments)
    left = without_a_row(batch)
    assert left.segment_ids.tolist() == [[[0, 0, 2, 2], [1, 1, 1, 0]]]
    assert left.loss_mask.tolist() == [[[0, 0, 1, 1], [1, 1, 1, 1]]]
    assert batch.loss_mask.sum() == 8, "the batch itself stays"
