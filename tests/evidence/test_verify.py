"""What `verify` says about records that are as they should be, and about those that cannot be scored."""

import json
import shutil
from pathlib import Path

import pytest

from tests.evidence.reseal import change_config, edit_json, edit_manifest, reseal
from tests.evidence.verdicts import failed, failures, said
from tests.record import synthetic
from workings.cli.verify import verification_text as verify_text
from workings.errors import RequestError
from workings.evidence.verify import CheckVerdict, Verification, verify
from workings.evidence.verify.checks import content
from workings.evidence.verify.registry import CHECKS
from workings.record.digest import bytes_digest
from workings.record.layout import partial_path
from workings.record.seal import root_digest


def ids(**names: str) -> set[str]:
    return {f"{group}.{name}" for group, of_group in names.items() for name in of_group.split()}


IDS = ids(integrity="readable names sealed files sums checkpoints anchor", form="json schema placeholders",
          content="plain private", attestation="signed", recompute="items scores scorecard",
          consistency="announced answers steps device engine time_and_memory made_from attempts tensors rows disjoint "
                      "tokenizer machine recipe learning_rate checkpoints")
"""Ids are given once and for ever: other people's scripts look for them."""
WHERE_THERE_IS_A_SUBJECT = ids(
    attestation="trust", integrity="pack", recompute="rewards top_tokens implied_rewards selection episodes",
    consistency="top_tokens teacher drawn_from preferences prompts rollouts views environment",
    replay="steps controls predictions coverage")
"""Ids that a plain run does not show: no signatures, rewards or samples, no view, no pack, no replay."""


def verdicts(found: Verification, verdict: str = "failed") -> set[str]:
    return {one.id for one in found.checks if one.verdict == verdict}


def test_ids_are_stable() -> None:
    assert set(CHECKS) == IDS | WHERE_THERE_IS_A_SUBJECT


def test_a_damaged_file_is_said_once_with_the_checks_it_stops(run: Path) -> None:
    log = run / "train" / "metrics.jsonl"
    rows = log.read_text().splitlines()
    log.write_text("\n".join([rows[0], rows[1][:40], *rows[2:], ""]))
    found = verify(run)
    lines = verify_text(found, verbose=False).splitlines()
    assert "form.json: train/metrics.jsonl, line 2 is damaged: not JSON" in lines[1]
    assert "checks could not be made because of that: form.schema, " in lines[2]
    # The bytes' sum, the damage, what it stops; then two more that compare with what is not damaged.
    assert sum(line.startswith("FAILED  ") for line in lines) < found.failed - 5
    assert sum("line 2 is damaged" in line for line in lines) == 1
    everything = verify_text(found, verbose=True)
    assert all(f"{one.id}: {one.text}" in everything for one in found.checks)
    assert repr(found).startswith(f"<Verification of {run}: FAILED, no level of 2: ")
    assert repr(found).endswith(", ".join(one.id for one in found.checks if one.verdict == "failed") + ">")


def test_a_good_run_reaches_level_two(run: Path) -> None:
    found = verify(run)
    assert {one.id for one in found.checks} == IDS
    assert (found.level, found.failed) == (2, 0)
    assert verdicts(found, "not_checked") == {"integrity.anchor", "attestation.signed", "consistency.machine",
                                                "consistency.tensors", "consistency.recipe",
                                                "consistency.announced"}
    value = found.to_json()
    assert list(value)[:5] == ["level", "passed", "failed", "not_checked", "checks"]
    assert (value["level"], value["passed"], value["not_checked"]) == (2, 26, 6)
    assert set(value["checks"][0]) == {"id", "level", "verdict", "text"}
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("level", [0, 1])
def test_only_the_levels_asked_for(run: Path, level: int) -> None:
    found = verify(run, level=level)
    assert (found.level, max(one.level for one in found.checks)) == (level, level)
    with pytest.raises(ValueError, match="level must be"):
        verify(run, level=4)


def test_nothing_is_written(run: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in run.parent.rglob("*")}
    before = state()
    verify(run)
    assert state() == before


def test_a_zip_is_verified_without_being_unpacked(run: Path, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", run.parent))
    found = verify(archive)
    assert (found.level, found.failed) == (2, 0)
    # Places differ (`tiny/…`), so the digest over several units differs; each unit's own does not.
    assert found.root == verify(run.parent).root
    (run / "README.md").write_text("changed")
    changed = Path(shutil.make_archive(str(tmp_path / "changed"), "zip", run.parent))
    assert verdicts(verify(changed, level=0)) == {"integrity.sums"}


def test_a_folder_of_runs_and_an_evaluation_alone(run: Path) -> None:
    synthetic.sealed_run(run.parent / "second", "interrupted", 3, name="tiny")
    partial_path(run.parent / "third").mkdir()
    (partial_path(run.parent / "third") / "SHA256SUMS").write_text("half")
    (run.parent / "notes.txt").write_text("mine")
    alone = run / "eval" / "test"
    for path in (run.parent, alone):
        assert (verify(path).failed, verify(path).level) == (0, 2)
    verdict, text = said(run.parent)["integrity.files"]
    assert (verdict, "third.partial" in text, "notes.txt" in text) == ("not_checked", True, True)
    assert "which is not here" in said(alone)["consistency.made_from"][1]


def test_anchoring(run: Path) -> None:
    def anchor(expected: str) -> tuple[str, str]:
        return said(run, level=0, expect_root=expected)["integrity.anchor"]
    whole = verify(run, level=0).root
    assert whole == bytes_digest(f"{root_digest(run)}  .\n{root_digest(run / 'eval/test')}  eval/test\n".encode())
    assert anchor(whole)[0] == "passed"
    assert anchor(whole.upper() + "\n")[0] == "passed"
    assert anchor("0" * 64)[0] == "failed"
    verdict, text = anchor(root_digest(run))
    assert verdict == "not_checked"
    assert "eval/test" in text
    shutil.rmtree(run / "eval")
    root = root_digest(run)
    assert anchor(root) == ("passed", f"anchored: everything is under the expected root {root}")


def test_a_root_of_one_run_does_not_stand_for_the_runs_beside_it(run: Path) -> None:
    synthetic.sealed_run(run.parent / "second", name="tiny")
    kept = root_digest(run)
    assert verify(run, expect_root=kept, level=1).level == 1
    both = verify(run.parent, expect_root=kept, level=1)
    assert (both.level, both.failed) == (-1, 0)
    assert verify(run.parent, expect_root=both.root, level=1).level == 1


def test_a_foreign_engine_is_named_and_nothing_is_said_for_it(run: Path) -> None:
    change_config(run, lambda value: value | {"engine": "theirs"})
    edit_manifest(run, engine_distribution={"name": "theirs", "version": "2.0"})
    edit_json(run / "env/device_checks.json", lambda value: value | {"devices": ["their device"]})
    edit_json(run / "eval/test/eval_config.json", lambda value: value | {
        "engine": value["engine"] | {"name": "theirs"}})
    (run.parent / "attempts.jsonl").unlink()
    reseal(run)
    verdict, text = said(run)["consistency.engine"]
    assert (verdict, "comes from theirs 2.0" in text) == ("not_checked", True)
    assert (verify(run).failed, verify(run).level) == (0, 2)


@pytest.mark.parametrize(("status", "done"), [("interrupted", 3), ("failed", 3), ("interrupted", 0)])
def test_runs_that_did_not_finish_verify_as_what_they_are(tmp_path: Path, status: str, done: int) -> None:
    found = verify(synthetic.sealed_run(tmp_path / "tiny", status, done))
    assert (found.failed, found.level) == (0, 1)
    assert "recompute.scores" not in {one.id for one in found.checks}


def test_what_is_no_record_is_a_wrong_request(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RequestError, match="a run directory"):
            verify(path)


def test_an_unfinished_run_asked_for_by_itself_is_not_sealed(tmp_path: Path, run: Path) -> None:
    (run / "SEAL.json").unlink()
    run.rename(tmp_path / "tiny.partial")
    found = verify(tmp_path / "tiny.partial", level=0)
    assert "integrity.sealed" in verdicts(found) <= {"integrity.sealed", "form.json"}
    assert found.level == -1


def test_a_check_that_is_not_made_never_counts_as_passed() -> None:
    from workings.evidence.verify.result import Check
    passed = Check(id="a", level=0, verdict=CheckVerdict.PASSED, text="")
    skipped = Check(id="b", level=0, verdict=CheckVerdict.NOT_CHECKED, text="")
    outside = Check(id="c", level=0, verdict=CheckVerdict.NOT_CHECKED, text="", blocking=False)
    upper = Check(id="d", level=1, verdict=CheckVerdict.PASSED, text="")

    def level(*checks: Check) -> int:
        return Verification(path="", checks=checks, asked_level=1, root="").level
    assert level(passed, upper) == 1
    assert level(passed, outside, upper) == 1
    assert level(passed, skipped, upper) == -1
    assert level(outside) == -1
    assert level(passed) == 0


# --- what is not compared, and what has gone wrong ----------------------------------------------------------------

def test_an_evaluation_of_another_run(run: Path, tmp_path: Path) -> None:
    other = synthetic.sealed_run(tmp_path / "others" / "tiny", status_reason="another run altogether")
    assert root_digest(other) != root_digest(run)
    shutil.rmtree(run / "eval")
    synthetic.add_evaluation(other)
    shutil.copytree(other / "eval", run / "eval")
    assert failed(run) == {"consistency.made_from"}


@pytest.mark.parametrize(("file", "data", "words"), [
    ("model.safetensors", synthetic.safetensors_bytes([9.0] * 64), "model.safetensors"),
    ("more.txt", b"x", "not in both")])
def test_a_checkpoint_is_what_its_commit_says(run: Path, file: str, data: bytes, words: str) -> None:
    (run / "checkpoints/step_000006" / file).write_bytes(data)
    reseal(run)
    assert words in failures(run)["integrity.checkpoints"]


def test_a_file_where_only_units_stand_is_extra(run: Path) -> None:
    (run / "eval" / "x.txt").write_text("x")
    assert failures(run, level=0) == {"integrity.files": "eval/x.txt is in no sums"}


def test_many_sequences_are_not_planned_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.checks.data_order.MAX_SEQUENCES", 10)
    verdict, text = said(run)["consistency.rows"]
    assert (verdict, "more than 10 sequences" in text) == ("not_checked", True)


def test_the_net_below_the_checks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "is_placeholder", lambda text: {}["something new"])
    assert "something new" in failures(run, level=0)["form.placeholders"]


def test_every_check_has_a_function_and_says_what_it_catches() -> None:
    assert all(one.level in (0, 1, 2, 3) and one.holds and one.catches and one.functions for one in CHECKS.values())
    # An example that is at two checks would explain neither.
    assert len({check.catches for check in CHECKS.values()}) == len(CHECKS)
