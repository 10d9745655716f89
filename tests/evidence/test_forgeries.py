"""Forgeries that were sealed again: which check catches which, and which only an anchor or another run settles."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.record import synthetic
from workings.evidence.verify import verify
from workings.record.digest import json_digest
from workings.record.seal import root_digest


def raise_a_score(run: Path) -> None:
    def change(rows: list[dict]) -> list[dict]:
        wrong = next(row for row in rows if row["score"] == 0)
        wrong["score"] = 1
        return rows
    reseal.edit_lines(run / "eval/test/predictions.jsonl", change)


def raise_a_score_and_the_card(run: Path) -> None:
    from workings.evaluation.summary import EvaluationSummary
    raise_a_score(run)
    unit = run / "eval/test"
    again = EvaluationSummary(unit / "predictions.jsonl", "mean")
    problems = json.loads((unit / "eval_summary.json").read_bytes())["problems"]
    reseal.edit_json(unit / "eval_summary.json", lambda value: again.to_json(problems))
    (unit / "samples.md").write_text(again.samples_text())


def edit_the_card_only(run: Path) -> None:
    def change(value: dict) -> dict:
        value["scorecard"]["overall"] |= {"correct": 12, "mean": 1}
        return value
    reseal.edit_json(run / "eval/test/eval_summary.json", change)


def edit_an_interval_only(run: Path) -> None:
    def change(value: dict) -> dict:
        value["scorecard"]["overall"]["ci_low"] += 0.1
        return value
    reseal.edit_json(run / "eval/test/eval_summary.json", change)


def drop_the_hardest(run: Path) -> None:
    from workings.evaluation.summary import EvaluationSummary
    unit = run / "eval/test"
    reseal.edit_lines(unit / "predictions.jsonl", lambda rows: [row for row in rows if row["score"] == 1])
    again = EvaluationSummary(unit / "predictions.jsonl", "mean")
    reseal.edit_json(unit / "eval_summary.json", lambda value: again.to_json(value["problems"]))
    reseal.edit_json(unit / "eval_config.json", lambda value: value | {"items": value["items"] | {"count": 8}})
    (unit / "samples.md").write_text(again.samples_text())


def double_the_easy(run: Path) -> None:
    reseal.edit_lines(run / "eval/test/predictions.jsonl", lambda rows: [*rows, *(row for row in rows if row["score"])])


def rewrite_a_completion(run: Path) -> None:
    """A better completion with the verdict of the old one left as it was."""
    def change(rows: list[dict]) -> list[dict]:
        rows[0]["completion"] = f"<reasoning>1</reasoning><answer>{rows[0]['gold']}</answer>"
        return rows
    reseal.edit_lines(run / "eval/test/predictions.jsonl", change)


def smooth_the_losses(run: Path) -> None:
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [row | {"loss": 1.0 / row["step"]} for row in rows])


def leave_out_a_step(run: Path) -> None:
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: rows[:2] + rows[3:])


def claim_a_gpu(run: Path) -> None:
    actual = {"platform": "gpu", "kind": "NVIDIA H200", "count": 1, "reason": "asked for"}
    reseal.edit_manifest(run, actual_device=actual, requested_device="gpu", vram=150_000_000_000,
                         hardware="1 x NVIDIA H200")


def claim_a_gpu_in_the_manifest_only(run: Path) -> None:
    reseal.edit_manifest(run, actual_device={"platform": "gpu", "kind": "NVIDIA H200", "count": 1, "reason": "asked"})


def change_the_learning_rate(run: Path) -> None:
    reseal.change_config(run, lambda value: value | {"training": value["training"] | {"learning_rate": 0.02}})


def change_the_learning_rate_in_one_place(run: Path) -> None:
    reseal.edit_json(run / "config/resolved.json",
                     lambda value: value | {"training": value["training"] | {"learning_rate": 0.02}})


def change_the_seed(run: Path) -> None:
    reseal.change_config(run, lambda value: value | {"seed": 8})
    reseal.edit_manifest(run, seed=8)


def another_order_of_rows(run: Path) -> None:
    def change(rows: list[dict]) -> list[dict]:
        rows[0]["batch_digest"], rows[1]["batch_digest"] = rows[1]["batch_digest"], rows[0]["batch_digest"]
        return rows
    reseal.edit_lines(run / "train/metrics.jsonl", change)


def another_runs_checkpoint(run: Path) -> None:
    folder = run / "checkpoints" / "step_000006"
    (folder / "model.safetensors").write_bytes(synthetic.safetensors_bytes([9.0] * 64))


def another_steps_state(run: Path) -> None:
    folder = run / "checkpoints" / "step_000006"
    shutil.copy(run / "checkpoints" / "step_000004" / "state.json", folder / "state.json")
    reseal.recommit(folder)


def take_more_steps_than_there_were(run: Path) -> None:
    reseal.change_config(run, lambda value: value | {"training": value["training"] | {"steps": 10}})
    reseal.edit_manifest(run, planned_steps=10, completed_steps=10, training_steps=10)


def call_it_complete(run: Path) -> None:
    reseal.change_config(run, lambda value: value | {"training": value["training"] | {"steps": 10}})
    reseal.edit_manifest(run, planned_steps=10)


def finish_before_the_start(run: Path) -> None:
    reseal.edit_manifest(run, finished_at="2026-11-20T09:00:00.000Z")


def leak_the_evaluation_into_training(run: Path) -> None:
    from workings.data.rows import prompt_digest
    first = json.loads((run / "eval/test/predictions.jsonl").read_bytes().splitlines()[0])
    def change(rows: list[dict]) -> list[dict]:
        rows[0]["prompt_digest"] = prompt_digest("  " + first["prompt"].upper())
        return rows
    reseal.edit_lines(run / "data/rows.jsonl", change)


def claim_other_rows(run: Path) -> None:
    reseal.edit_lines(run / "data/rows.jsonl", lambda rows: [row | {"digest": "ab" * 32} for row in rows])


def nothing_supervised(run: Path) -> None:
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [row | {"supervised_tokens": 0} for row in rows])


def hide_the_attempts(run: Path) -> None:
    (run.parent / "attempts.jsonl").write_text('{"run":"other","started_at":"2026-11-20T10:00:00.000Z"}\n')


def fill_in_a_template(run: Path) -> None:
    reseal.edit_manifest(run, model_id="<your model here>", commit_sha="0" * 40)


def null_it(run: Path) -> None:
    reseal.edit_json(run / "env/env_info.json", lambda value: value | {"gpu": None})


def keep_a_token(run: Path) -> None:
    (run / "train/training_log.txt").write_text("HF_TOKEN is hf_" + "x" * 34 + "\n")


def keep_a_home(run: Path) -> None:
    (run / "train/training_log.txt").write_text("writing /home/ada/runs/a\n")


def ask_with_another_tokenizer(run: Path) -> None:
    reseal.edit_json(run / "eval/test/eval_config.json", lambda value: value | {"tokenizer": {"digest": "ab" * 32}})


def bring_completions_from_elsewhere(run: Path) -> None:
    reseal.edit_json(run / "eval/test/eval_config.json", lambda value: value | {
        "source": {"kind": "predictions", "file": "p.jsonl", "digest": "ab" * 32, "samples": 1}})


CAUGHT: dict[Callable[[Path], None], str] = {
    raise_a_score: "recompute.scores", raise_a_score_and_the_card: "recompute.scores",
    edit_the_card_only: "consistency.scorecard", edit_an_interval_only: "recompute.scorecard",
    drop_the_hardest: "recompute.items", double_the_easy: "recompute.scorecard",
    rewrite_a_completion: "recompute.scores",
    ask_with_another_tokenizer: "consistency.evaluated_model",
    bring_completions_from_elsewhere: "consistency.evaluated_model",
    smooth_the_losses: "consistency.losses", leave_out_a_step: "consistency.steps",
    claim_a_gpu: "consistency.device", claim_a_gpu_in_the_manifest_only: "consistency.device",
    change_the_learning_rate: "consistency.learning_rate", change_the_learning_rate_in_one_place: "consistency.config",
    change_the_seed: "consistency.order", another_order_of_rows: "consistency.order",
    another_runs_checkpoint: "integrity.checkpoints", another_steps_state: "consistency.checkpoints",
    take_more_steps_than_there_were: "consistency.steps", call_it_complete: "consistency.status",
    finish_before_the_start: "consistency.time_and_memory", leak_the_evaluation_into_training: "consistency.disjoint",
    claim_other_rows: "consistency.rows", nothing_supervised: "form.schema",
    hide_the_attempts: "consistency.attempts",
    fill_in_a_template: "form.placeholders", null_it: "form.nulls", keep_a_token: "content.secrets",
    keep_a_home: "content.paths",
}


@pytest.mark.parametrize("forge", CAUGHT, ids=lambda forge: forge.__name__)
def test_caught(run: Path, forge: Callable[[Path], None]) -> None:
    forge(run)
    reseal.reseal(run)
    assert CAUGHT[forge] in failed(run)


def test_an_evaluation_of_another_run(run: Path, tmp_path: Path) -> None:
    other = synthetic.sealed_run(tmp_path / "others" / "tiny", status_reason="another run altogether")
    assert root_digest(other) != root_digest(run)
    shutil.rmtree(run / "eval")
    synthetic.add_evaluation(other)
    shutil.copytree(other / "eval", run / "eval")
    assert failed(run) == {"consistency.made_from"}


def test_resealing_itself_leaves_a_good_record(run: Path) -> None:
    """The forger's tools are right: without a forgery, nothing fails."""
    reseal.reseal(run)
    assert failed(run) == set()


def move_the_whole_run_to_another_day(run: Path) -> None:
    reseal.edit_manifest(run, started_at="2025-01-01T10:00:00.000Z", finished_at="2025-01-01T10:00:09.000Z")


def invent_all_losses(run: Path) -> None:
    smooth_the_losses(run)
    reseal.edit_manifest(run, first_loss=1.0, final_loss=1.0 / 6)


def invent_the_weights(run: Path) -> None:
    another_runs_checkpoint(run)
    reseal.recommit(run / "checkpoints" / "step_000006")


def invent_the_completions(run: Path) -> None:
    def change(rows: list[dict]) -> list[dict]:
        right = next(row for row in rows if row["score"] == 1)
        return [row | {key: right[key] for key in ("score", "rule", "format_ok", "reasoning_chars", "steps_checked",
                                                   "steps_valid", "completion_tokens")}
                | {"completion": f"<reasoning>1</reasoning><answer>{row['gold']}</answer>", "extracted": row["gold"]}
                for row in rows]
    from workings.evaluation.summary import EvaluationSummary
    unit = run / "eval/test"
    reseal.edit_lines(unit / "predictions.jsonl", change)
    again = EvaluationSummary(unit / "predictions.jsonl", "mean")
    reseal.edit_json(unit / "eval_summary.json", lambda value: again.to_json(value["problems"]))
    (unit / "samples.md").write_text(again.samples_text())


ONLY_ANCHOR_OR_REPLAY = [
    move_the_whole_run_to_another_day, invent_all_losses, invent_the_weights, invent_the_completions]


@pytest.mark.parametrize("forge", ONLY_ANCHOR_OR_REPLAY, ids=lambda forge: forge.__name__)
def test_what_only_a_digest_kept_elsewhere_or_another_run_settles(run: Path, forge: Callable[[Path], None]) -> None:
    kept = verify(run, level=0).root
    forge(run)
    reseal.reseal(run)
    # Consistent in itself: levels 0 to 2 say so and do not say more.
    assert failed(run) == set()
    assert failed(run, expect_root=kept) == {"integrity.anchor"}


def test_the_config_digest_is_that_of_the_snapshot(run: Path) -> None:
    manifest = json.loads((run / "run_manifest.json").read_bytes())
    assert manifest["config_digest"] == json_digest(manifest["config_snapshot"])
