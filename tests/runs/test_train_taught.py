"""Runs that distill on traces: the student comes closer, on both engines; killed while it asks, it goes on there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs import distilled
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.config.load import load_recipe
from workings.data import top_tokens
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.inputs.resolve import find_shape
from workings.models.shapes import to_hf_config
from workings.models.tokenizer import Tokenizer
from workings.record.layout import EVENTS, TOP_TOKENS
from workings.runs.memory_check import plan_here
from workings.runs.prepare import prepare
from workings.runs.train import train
from workings.ways.parts.teacher import refuse_processes


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distilled.write(tmp_path_factory.mktemp("taught"), ["training.steps=10"], on_traces=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [pytest.param("jax", marks=pytest.mark.full), "torch"])
def test_the_student_comes_closer_to_its_teacher(recipe, tmp_path, engine):
    """Packed on one engine and bucketed on the other: rows are told apart in either."""
    packing = "best_fit" if engine == "torch" else "none"
    done = train(str(recipe), tmp_path / "run", [f"engine={engine}", "training.steps=12", f"data.packing={packing}"])
    losses = [line["loss"] for line in lines_of(done.run)]
    assert (done.status, len(losses)) == ("complete", 12)
    assert losses[-1] < 0.7 * losses[0]
    found = verify(done.run)
    assert [check.text for check in found.checks if check.verdict == "failed"] == []
    told = {check.id: check.text for check in found.checks}
    assert told["recompute.top_tokens"] == "12 steps"
    assert "positions of" in told["consistency.top_tokens"]


def test_what_was_asked_is_not_asked_again(recipe, tmp_path, monkeypatch):
    """Asked in files of two batches; the teacher is gone after the first file, and there again when it is resumed."""
    monkeypatch.setattr(top_tokens, "MAX_BATCHES", 2)
    asked = []

    def stop_after(most):
        def record(said):
            asked.append(len(asked))
            if len(asked) == most:
                raise KeyboardInterrupt
            return contents(said)
        return record

    contents = top_tokens.to_bytes
    monkeypatch.setattr("workings.ways.parts.row_data.to_bytes", stop_after(2))
    with pytest.raises(KeyboardInterrupt):
        train(str(recipe), tmp_path / "run", [])
    assert [path.name for path in (tmp_path / "run.partial" / TOP_TOKENS).iterdir()] == ["part_000000.safetensors"]
    monkeypatch.setattr("workings.ways.parts.row_data.to_bytes", contents)
    run = train(str(recipe), tmp_path / "run", [], resume=True).run
    events = [json.loads(line) for line in (run / EVENTS).read_text().splitlines()]
    assert [event["part"] for event in events if event["kind"] == "teacher_asked"] == [0, 1]
    straight = train(str(recipe), tmp_path / "straight", []).run
    names = ["part_000000.safetensors", "part_000001.safetensors"]
    for name in names:
        assert (run / TOP_TOKENS / name).read_bytes() == (straight / TOP_TOKENS / name).read_bytes()
    assert [line["loss"] for line in lines_of(run)] == [line["loss"] for line in lines_of(straight)]
    assert verify(run).failed == 0


def test_what_does_not_go_together_is_refused_before_anything_is_made(recipe, tmp_path):
    train_refuses(recipe, tmp_path / "run", ["algorithm.top_k=0"], "algorithm.top_k")
    with pytest.raises(RequestError, match="distill_traces does not run in several processes"):
        refuse_processes(load_recipe(str(recipe)).recipe)


@pytest.mark.full
def test_the_shipped_recipe_learns_from_the_quickstart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ["training.steps=2", "training.warmup_steps=0", "evaluation={traces: none, items: none}"]
    train("quickstart", Path("runs") / "quickstart", short)
    done = train("quickstart-distill-cpu", Path("runs") / "student", short)
    assert (done.status, done.steps) == ("complete", 2)
    assert verify(done.run).failed == 0


def test_what_asking_the_teacher_needs_is_judged_before_a_weight_is_read(recipe, tmp_path):
    """A teacher of petabytes: only its description and its tokenizer exist."""
    tokenizer = recipe.parent / "teacher" / "config" / "tokenizer"
    shutil.copytree(tokenizer, tmp_path / "huge")
    loaded = load_recipe(str(recipe), [f"algorithm.teacher={tmp_path / 'huge'}"])
    student = find_shape(loaded, vocabulary=Tokenizer.load(tokenizer).vocab_size)
    huge = replace(student, layers=8, width=2**24, mlp_width=2**24)
    (tmp_path / "huge" / "config.json").write_text(json.dumps(to_hf_config(huge)))
    setup = prepare(loaded)
    assert (setup.program, setup.verdict.fits, setup.verdict.source) == ("teacher", False, "estimated")
    assert plan_here(setup).program == "teacher"
    assert "largest part: parameters" in plan_here(setup).largest_part
    # One that fits leaves the compiled step to decide.
    assert prepare(load_recipe(str(recipe))).program == "step"
