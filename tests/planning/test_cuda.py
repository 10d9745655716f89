"""XLA's compiler for CUDA, without a card: every program of a run, two cards, and what it was told about them."""

import importlib.util

import pytest

from tests.planning.planning_helpers import recipe, request_of
from workings.engines.jax.target import compile_for
from workings.hardware.catalog import HOST, targets
from workings.models.batch import Batch
from workings.models.shapes import shape_from_config
from workings.planning.memory_formulas import exact_parts
from workings.planning.plan import make_plan

MISSING = importlib.util.find_spec("jax_cuda12_plugin") is None
pytestmark = pytest.mark.slow
without = pytest.mark.skipif(MISSING, reason="XLA for CUDA (jax-cuda12-plugin) is not installed")


@without
@pytest.mark.usefixtures("run_flags")
@pytest.mark.parametrize("evaluation", [
    pytest.param({}, id="training"), pytest.param({"traces": "held.jsonl"}, id="held out", marks=pytest.mark.full),
    pytest.param({"traces": "held.jsonl", "items": "eval", "max_new_tokens": 16, "batch_size": 4}, id="items",
                 marks=pytest.mark.full)])
def test_every_program_of_a_run_on_two_cards_that_are_not_here(evaluation, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    asked = recipe(memory={"attention": "chunked", "remat": "layer"}, batch={"micro_batch": 2},
                   evaluation=evaluation)
    shape = shape_from_config(asked.model.shape, 96)
    found = make_plan(asked, shape, targets()["t4x2"])
    assert found.verdict.source == "compiled"
    assert found.verdict.fits
    assert found.verdict.devices == 2
    programs = {"step"} | {name for key, name in (("traces", "evaluation"), ("items", "generation"))
                           if key in evaluation}
    assert set(found.peaks) == programs
    assert found.verdict.peak_bytes == max(found.peaks.values())
    assert "nvidia-cuda-nvcc-cu12" in found.verdict.versions
    assert any("put together from its datasheet" in reason for reason in found.reasons)
    exact = {part.name: part.size_bytes for part in found.parts if part.certainty == "exact"}
    counted = exact_parts(request_of(asked), (1, 4, 64), 2, 1)
    assert exact["parameters"] == counted["parameters"]
    assert exact["moments"] == counted["moments"]
    assert sum(part.size_bytes for part in found.parts) == pytest.approx(found.verdict.peak_bytes, abs=1024)
    assert len([*(tmp_path / "plans").iterdir()]) == len(programs)


def test_the_cpu_is_compiled_for_as_training_does(tmp_path, monkeypatch):
    """The child's program needs what the engine's own inspection says."""
    from workings.engines.jax.engine import JaxEngine

    asked = request_of(recipe())
    ahead = compile_for(asked, (1, 4, 64), HOST)
    here = JaxEngine.open(asked.__class__(**(vars(asked) | {"device": "cpu"}))).inspect(Batch.blank((1, 4, 64)))
    assert ahead.peak_bytes == here.peak_bytes
    assert sum(ahead.heap.values()) <= ahead.breakdown["temporaries"]
