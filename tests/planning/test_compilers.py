"""XLA's compilers for CUDA and TPUs, without the devices: every program of a run, what is kept, a refusal, a crash."""

import importlib.util
import json
import tempfile
from typing import Any

import pytest

from tests.planning.planning_helpers import SHAPE, recipe, request_of
from workings.engines.base import EngineRequest
from workings.engines.jax.target import compile_for, refused_bytes
from workings.errors import WorkingsError
from workings.hardware.catalog import HOST, compile_target, find_target
from workings.models.batch import Batch
from workings.models.shapes import shape_from_config
from workings.planning.memory_formulas import exact_parts
from workings.planning.plan import make_plan
from workings.planning.planned_run import longest_batch

pytestmark = pytest.mark.slow
CUDA, TPU = (pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")
             for package in ("jax_cuda12_plugin", "libtpu"))
CARDS: dict[str, Any] = {"memory": {"attention": "chunked", "remat": "layer"}}
CHIPS: dict[str, Any] = {
    "model": {"source": "scratch", "shape": SHAPE | {"head_dim": 128}},
    "data": {"traces": "addition", "max_length": 128}, "optimizer": {"name": "adafactor"},
    "precision": {"parameters": "bf16", "compute": "bf16", "moments": "bf16", "rounding": "stochastic"},
    "memory": {"attention": "flash", "remat": "layer", "loss_chunk": 64}}
HELD_OUT, ITEMS = {"traces": "held.jsonl"}, {"items": "eval", "max_new_tokens": 16, "batch_size": 4}


@pytest.mark.usefixtures("run_flags")
@pytest.mark.parametrize(("target", "changes", "evaluation", "compiler"), [
    pytest.param("t4x2", CARDS, {}, "nvidia-cuda-nvcc-cu12", marks=CUDA),
    pytest.param("t4x2", CARDS, HELD_OUT | ITEMS, "nvidia-cuda-nvcc-cu12", marks=[CUDA, pytest.mark.full]),
    pytest.param("v5e-8", CHIPS, {}, "libtpu", marks=TPU),
    pytest.param("v5e-8", CHIPS, ITEMS, "libtpu", marks=[TPU, pytest.mark.full])])
def test_every_program_of_a_run_on_devices_that_are_not_here(
        target: str, changes: dict[str, Any], evaluation: dict[str, Any], compiler: str, tmp_path, monkeypatch) -> None:
    """Two rows on each device. On the chips: flash attention, bf16 and stochastic rounding."""
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    asked, machine = recipe(**changes, batch={"micro_batch": 2}, evaluation=evaluation), find_target(target)
    shape = shape_from_config(asked.model.shape, 96)
    found = make_plan(asked, shape, machine)
    assert (found.verdict.source, found.verdict.fits, found.verdict.devices) == ("compiled", True, machine.devices)
    assert compiler in found.verdict.versions
    assert set(found.peaks) == {"step"} | {name for key, name in (("traces", "evaluation"), ("items", "generation"))
                                           if key in evaluation}
    assert found.verdict.peak_bytes == max(found.peaks.values())
    exact = {part.name: part.size_bytes for part in found.parts if part.certainty == "exact"}
    # The engine's own count of the same arrays, from their shardings.
    counted = exact_parts(EngineRequest.of(asked, shape), longest_batch(asked, machine.devices), machine.devices, 1)
    assert (exact["parameters"], exact["moments"]) == (counted["parameters"], counted["moments"])
    assert sum(part.size_bytes for part in found.parts) == pytest.approx(found.verdict.peak_bytes, abs=1024)
    if target == "t4x2":
        assert any("put together from its datasheet" in reason for reason in found.reasons)
    kept = [json.loads(file.read_text("utf-8")) for file in (tmp_path / "plans").iterdir()]
    assert sorted(each["peak_bytes"] for each in kept) == sorted(found.peaks.values())
    monkeypatch.setattr("workings.engines.jax.planning.compile_for", lambda *_: pytest.fail("compiled again"))
    assert make_plan(asked, shape, machine).verdict == found.verdict


@TPU
@pytest.mark.usefixtures("run_flags")
def test_a_refusal_carries_the_compilers_number(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    large = SHAPE | {"layers": 1, "width": 8192, "mlp_width": 65536, "heads": 2, "head_dim": 8}
    asked = recipe(**CARDS, mesh={"fsdp": 1}, model={"source": "scratch", "shape": large})
    found = make_plan(asked, shape_from_config(asked.model.shape, 96), find_target("v5e-8"))
    # 1.6 billion fp32 weights with two moments and a gradient are 24 GiB.
    assert not found.verdict.fits
    assert 24 * 2**30 < found.verdict.peak_bytes < 60 * 2**30
    assert found.verdict.limit_bytes == int(15.75 * 2**30)
    assert "7 of 8 devices are idle" in found.largest_part
    assert any("the compiler refused" in reason for reason in found.reasons)


def test_both_sentences_of_a_refusal() -> None:
    assert refused_bytes("Ran out of memory in memory space hbm. Used 28.00G of 15.75G hbm. Exceeded") == (
        28 * 2**30, int(15.75 * 2**30))
    assert refused_bytes("the total memory required for HLO temporaries (512.00G) exceeds available HBM (15.75G).") == (
        512 * 2**30, int(15.75 * 2**30))
    assert refused_bytes("INTERNAL: something else") == (0, 0)


@TPU
def test_a_crash_of_the_compiler_is_no_verdict(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    impossible = {**compile_target(find_target("v5e-8")), "topology": "v5e:9x9x9"}
    with pytest.raises(WorkingsError, match="this says nothing about memory") as caught:
        compile_for(request_of(recipe()), (1, 8, 64), impossible)
    log = next(tmp_path.glob("workings-child-*.log"))
    assert str(log) in str(caught.value)
    assert "v5e:9x9x9" in log.read_text("utf-8")


def test_the_cpu_is_compiled_for_as_training_does() -> None:
    """The child's program needs what the engine's own inspection says."""
    from workings.engines.jax.engine import JaxEngine

    asked = request_of(recipe())
    ahead = compile_for(asked, (1, 4, 64), HOST)
    engine = JaxEngine.open(asked.__class__(**(vars(asked) | {"device": "cpu"})))
    here = engine.inspect(Batch.blank((1, 4, 64)))
    assert ahead.peak_bytes == here.peak_bytes
    # Parameters and two moments come in and go out in the same memory.
    assert here.breakdown["aliased"] >= 3 * ahead.exact["parameters"]
    larger = engine.inspect(Batch.blank((1, 32, 64)))
    assert larger.breakdown["temporaries"] > 3 * here.breakdown["temporaries"]
