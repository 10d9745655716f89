"""The real TPU compiler, without the chip: a small model on eight chips, what is remembered, and a refusal."""

import importlib.util
import json
import tempfile

import pytest

from tests.planning.planning_helpers import SHAPE, recipe, request_of
from workings.config.load import check_recipe
from workings.engines.base import EngineRequest
from workings.engines.jax.target import compile_for, refused_bytes
from workings.errors import WorkingsError
from workings.hardware.catalog import compile_target, find_target, targets
from workings.models.shapes import shape_from_config
from workings.planning.memory_formulas import exact_parts
from workings.planning.plan import make_plan

pytestmark = pytest.mark.slow


def test_both_sentences_of_a_refusal():
    assert refused_bytes("Ran out of memory in memory space hbm. Used 28.00G of 15.75G hbm. Exceeded") == (
        28 * 2**30, int(15.75 * 2**30))
    assert refused_bytes("the total memory required for HLO temporaries (512.00G) exceeds available HBM (15.75G).") == (
        512 * 2**30, int(15.75 * 2**30))
    assert refused_bytes("INTERNAL: something else") == (0, 0)


def test_a_crash_of_the_compiler_is_no_verdict(tmp_path, monkeypatch):
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU compiler (libtpu) is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    impossible = {**compile_target(find_target("v5e-8")), "topology": "v5e:9x9x9"}
    with pytest.raises(WorkingsError, match="this says nothing about memory") as caught:
        compile_for(request_of(recipe()), (1, 8, 64), impossible)
    log = next(tmp_path.glob("workings-child-*.log"))
    assert str(log) in str(caught.value)
    assert "v5e:9x9x9" in log.read_text("utf-8")


@pytest.mark.usefixtures("run_flags")
@pytest.mark.parametrize("items", ["none", pytest.param("eval", marks=pytest.mark.full)])
def test_a_small_step_on_eight_chips(items, tmp_path, monkeypatch):
    """Flash attention, bf16 and stochastic rounding: 16 rows of 128 tokens become 2 on each chip."""
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU compiler (libtpu) is not installed")
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    asked = recipe(model={"source": "scratch", "shape": SHAPE | {"head_dim": 128}},
                   data={"traces": "addition", "max_length": 128}, optimizer={"name": "adafactor"},
                   precision={"parameters": "bf16", "compute": "bf16", "moments": "bf16", "rounding": "stochastic"},
                   memory={"attention": "flash", "remat": "layer", "loss_chunk": 64}, batch={"micro_batch": 2},
                   evaluation={"items": items, "max_new_tokens": 16, "batch_size": 4} if items != "none" else {})
    shape = shape_from_config(asked.model.shape, 96)
    found = make_plan(asked, shape, targets()["v5e-8"])
    programs = {"step"} | ({"generation"} if items != "none" else set())
    assert set(found.peaks) == programs
    assert found.verdict.fits
    assert found.verdict.source == "compiled"
    assert found.verdict.devices == 8
    assert found.verdict.limit_bytes == int(15.75 * 2**30)
    assert found.verdict.versions["libtpu"]
    exact = {part.name: part.size_bytes for part in found.parts if part.certainty == "exact"}
    # The engine's own count of the same arrays, from their shardings.
    counted = exact_parts(EngineRequest.of(asked, shape), (1, 16, 128), 8, 1)
    assert (exact["parameters"], exact["moments"]) == (counted["parameters"], counted["moments"])
    assert sum(part.size_bytes for part in found.parts) == pytest.approx(found.verdict.peak_bytes, abs=1024)
    kept = [json.loads(file.read_text("utf-8")) for file in (tmp_path / "plans").iterdir()]
    assert len(kept) == len(programs)
    monkeypatch.setattr("workings.engines.jax.planning.compile_for", lambda *_: pytest.fail("compiled again"))
    again = make_plan(asked, shape, targets()["v5e-8"])
    assert again.verdict == found.verdict
    assert found.verdict.peak_bytes in {each["peak_bytes"] for each in kept}
    step = next(each for each in kept if "activations kept for backward" in each["heap"])
    heap = step["heap"]
    assert 0 < sum(heap.values()) <= step["breakdown"]["temporaries"]


@pytest.mark.usefixtures("run_flags")
def test_a_refusal_carries_the_compilers_number(tmp_path, monkeypatch):
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU compiler (libtpu) is not installed")
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    large = SHAPE | {"layers": 1, "width": 8192, "mlp_width": 65536, "heads": 2, "head_dim": 8}
    asked = check_recipe(recipe(memory={"attention": "chunked", "remat": "layer"}, mesh={"fsdp": 1}).model_dump(
        mode="json", exclude_unset=True) | {"model": {"source": "scratch", "shape": large}}, "test")
    found = make_plan(asked, shape_from_config(asked.model.shape, 96), targets()["v5e-8"])
    # 1.6 billion fp32 weights with two moments and a gradient are 24 GiB.
    assert not found.verdict.fits
    assert 24 * 2**30 < found.verdict.peak_bytes < 60 * 2**30
    assert found.verdict.limit_bytes == int(15.75 * 2**30)
    assert "7 of 8 devices are idle" in found.largest_part
    assert any("the compiler refused" in reason for reason in found.reasons)
