"""One small disagreement at a time, sealed again: the check that is about it says so, in words that name it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import reseal
from workings.evidence.verify import verify

Change = Callable[[Path], object]


def manifest(**changes: Any) -> Change:
    return lambda run: reseal.edit_manifest(run, **changes)


def recipe(**changes: Any) -> Change:
    return lambda run: reseal.change_config(run, lambda value: value | changes)


def lines(name: str, change: Callable[[list[dict[str, Any]]], Any]) -> Change:
    """``change`` edits the rows in place."""
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        change(rows)
        return rows
    return lambda run: reseal.edit_lines(run / name, edit)


def json_file(name: str, value: Any) -> Change:
    return lambda run: (run / name).write_text(json.dumps(value))


def checks(**changes: Any) -> Change:
    return lambda run: reseal.edit_json(run / "env/device_checks.json", lambda value: value | changes)


def first(**changes: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: rows[0].update(changes)


TRAINING = {"steps": 6, "learning_rate": 0.01, "schedule": "constant"}
CASES: dict[str, tuple[Change, str, str]] = {
    "too few steps": (recipe(training=TRAINING | {"steps": 7}), "consistency.steps", "complete, with 6 of 7 steps"),
    "too many steps": (recipe(training=TRAINING | {"steps": 5}), "consistency.steps", "6 steps done, 5 planned"),
    "status": (manifest(status="failed"), "consistency.steps", "the seal says complete, the manifest failed"),
    "device checks are a list": (json_file("env/device_checks.json", []), "consistency.device", "not a JSON object"),
    "device check failed": (checks(passed=False), "consistency.device",
                     "check failed"),
    "device elsewhere": (checks(platform="tpu"), "consistency.device", "cpu was asked for, tpu was used"),
    "devices unchecked": (checks(devices=[]), "consistency.device", "0 were checked"),
    "other devices checked": (checks(devices=["TPU_0"]), "consistency.device",
                              "'TPU_0' is no cpu"),
    "engine version": (manifest(engine_distribution={"name": "workings", "version": "9"}), "consistency.engine",
                       "engine from workings 9"),
    "more time than there was": (lines("train/metrics.jsonl", first(seconds=3600)), "consistency.time_and_memory",
                                 "s of steps in 9.0 s"),
    "events backwards": (lines("train/events.jsonl", first(time="2099-01-01T00:00:00.000Z")),
                         "consistency.time_and_memory", "event 2 is earlier than event 1"),
    "no time zone": (lines("train/events.jsonl", first(time="2026-01-01T00:00:00")), "consistency.time_and_memory",
                     "without a time zone"),
    "no moment": (lines("train/events.jsonl", first(time="today")), "consistency.time_and_memory", "not a moment"),
    "peak above the limit": (json_file("plan/plan.json", {"limit_bytes": 1000}), "consistency.time_and_memory",
                             "on a device with 1,000"),
    "peak below the log": (json_file("plan/measured.json", {"measured_peak_bytes": 5}), "consistency.time_and_memory",
                           "123,456,789 in the log"),
    "event without a kind": (lines("train/events.jsonl", lambda rows: rows[0].pop("kind")), "form.schema",
                             "event 1 has no kind or no time"),
    "order of steps": (lines("train/metrics.jsonl", lambda rows: rows.reverse()), "consistency.steps", "is step 6"),
    "more supervised than real": (lines("train/metrics.jsonl", first(tokens=1)), "form.schema",
                     "of 1 tokens"),
    "rate above the peak": (lines("train/metrics.jsonl", first(learning_rate=0.5)), "consistency.learning_rate",
                            "step 1: 0.5, the schedule gives 0.01"),
    "rate below the constant": (lines("train/metrics.jsonl", first(learning_rate=0.001)), "consistency.learning_rate",
                                "step 1: 0.001, the schedule gives 0.01"),
    "digests elsewhere": (json_file("data/digests.json", {}), "consistency.rows", "data/digests.json names None"),
    "row without learning": (lines("data/rows.jsonl", first(supervised_tokens=0)), "consistency.rows",
                             "rows without a supervised token"),
    "row without an id": (lines("data/rows.jsonl", lambda rows: rows[0].pop("id")), "consistency.rows", "no id"),
    "row without a count": (lines("data/rows.jsonl", first(tokens=-1)), "consistency.rows", "tokens is no count"),
    "row twice": (lines("data/rows.jsonl", lambda rows: rows.append(rows[0])), "consistency.rows",
                     "is there twice"),
    "row too long": (lines("data/rows.jsonl", first(tokens=97)), "consistency.rows", "longer than data.max_length"),
    "no rows": (lines("data/rows.jsonl", lambda rows: rows.clear()), "consistency.rows", "no rows"),
    "row shorter": (lines("data/rows.jsonl", first(digest="ab" * 32)), "consistency.rows", "another batch than seed"),
    "batch of nothing": (recipe(batch={"micro_batch": 0, "accumulation": 1}), "consistency.rows",
                         "greater than or equal to 1"),
    "no batch": (recipe(batch={}), "consistency.rows", "batch.micro_batch: Field required"),
    "evaluation without a card": (json_file("eval/test/eval_summary.json", {"schema": "eval_summary/1"}),
                                  "recompute.scorecard", "$.scorecard is on one side only"),
    "evaluation of nothing": (lambda run: (run / "eval/test/predictions.jsonl").write_text(""),
                              "recompute.items", "items have count 0"),
    "score that is none": (lines("eval/test/predictions.jsonl", first(score="1")), "form.schema", "no id or no score"),
    "summary of no kind": (json_file("eval/test/eval_summary.json", {"schema": "x"}), "form.schema", "schema 'x'"),
    "sections": (lines("eval/test/predictions.jsonl", first(section="new")), "recompute.scorecard",
                 "$.scorecard.per_section.new is on one side only"),
    "predictions without a rule": (lines("eval/test/predictions.jsonl", lambda rows: rows[0].pop("rule")),
                                   "recompute.scorecard", "cannot be summarized"),
    "attempts of another recipe": (
        lambda run: (run.parent / "attempts.jsonl").write_text('{"run":"tiny","config_digest":"0"}\n'),
        "consistency.attempts", "lists no start of 'tiny'"),
    "attempts torn in the middle": (lambda run: (run.parent / "attempts.jsonl").write_text('{"run":\n{}\n'),
                                    "consistency.attempts", "line 1 is damaged: not JSON"),
    "uncommitted checkpoint": (lambda run: (run / "checkpoints/step_000006/COMMIT.json").unlink(),
                               "integrity.checkpoints", "COMMIT.json is missing"),
    "folder that is no checkpoint": (lambda run: (run / "checkpoints/step_000006").rename(run / "checkpoints/last"),
                                     "integrity.checkpoints", "not a checkpoint's name"),
    "file next to the commit": (lambda run: (run / "checkpoints/step_000006/more.txt").write_text("x"),
                               "integrity.checkpoints", "not in both"),
    "evaluation where a report should be": (lambda run: (run / "eval/test").rename(run / "report"), "integrity.sealed",
                                            "its place and files say 'report'"),
    "one-digit digest": (manifest(commit_sha="0" * 40), "form.placeholders", "$.commit_sha"),
}


@pytest.mark.parametrize("name", CASES)
def test_named_in_words(run: Path, name: str) -> None:
    change, expected, words = CASES[name]
    change(run)
    for inner in (run / "eval" / "test", run / "report"):
        if inner.exists():
            reseal.reseal(inner)
    reseal.reseal(run)
    failed = {one.id: one.text for one in verify(run).checks if one.verdict == "failed"}
    assert words in failed.get(expected, ""), failed


def test_a_file_where_only_units_stand_is_extra(run: Path) -> None:
    (run / "eval" / "x.txt").write_text("x")
    failed = {one.id: one.text for one in verify(run, level=0).checks if one.verdict == "failed"}
    assert failed == {"integrity.files": "eval/x.txt is in no sums"}


def test_a_run_without_checkpoints_is_not_complete(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    reseal.reseal(run)
    check = next(one for one in verify(run, level=1).checks if one.id == "consistency.checkpoints")
    assert (str(check.verdict), check.text) == ("failed", "complete, and no checkpoint of its last step")


def test_rates_without_a_recipe_are_not_checked(run: Path) -> None:
    reseal.change_config(run, lambda value: value | {"training": {"steps": 6}})
    reseal.reseal(run)
    found = {one.id: str(one.verdict) for one in verify(run).checks}
    assert found["consistency.learning_rate"] == "not_checked"


def test_an_index_without_digests_of_questions(run: Path) -> None:
    def drop(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in row.items() if key != "prompt_digest"} for row in rows]
    reseal.edit_lines(run / "data/rows.jsonl", drop)
    reseal.reseal(run)
    found = verify(run)
    disjoint = next(one for one in found.checks if one.id == "consistency.disjoint")
    assert (str(disjoint.verdict), found.level) == ("not_checked", 0)


def test_many_sequences_are_not_planned_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.checks.data_order.MAX_SEQUENCES", 10)
    order = next(one for one in verify(run).checks if one.id == "consistency.rows")
    assert (str(order.verdict), order.text) == ("not_checked", "more than 10 sequences")


def test_dropped_rows_are_no_rows(run: Path) -> None:
    reseal.edit_lines(run / "data/rows.jsonl", lambda rows: [
        *rows, {"id": "long", "status": "dropped", "tokens": 500, "reason": "too long"}])
    reseal.reseal(run)
    assert [one.id for one in verify(run).checks if one.verdict == "failed"] == []


def test_the_net_below_the_checks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: object) -> object:
        raise KeyError("something new")
    from workings.evidence.verify.registry import CHECKS
    monkeypatch.setitem(CHECKS, "form.json", replace(CHECKS["form.json"], functions=[broken]))
    nulls = next(one for one in verify(run, level=0).checks if one.id == "form.json")
    assert (str(nulls.verdict), "something new" in nulls.text) == ("failed", True)


def test_claims_survive_what_cannot_be_read(run: Path) -> None:
    (run / "run_manifest.json").write_text("[]")
    (run / "eval/test/eval_summary.json").write_text(json.dumps({"scorecard": {}}))
    assert verify(run, level=0).claims[:2] == (".: cannot be read.", "eval/test: cannot be read.")
