"""Verdicts that need no compiler: estimates, requests that do not go together, the search, the verb's answer."""

import json

import pytest

from tests.planning.planning_helpers import recipe, request_of, shape
from workings.config.load import load_recipe
from workings.engines.base import Inspection
from workings.errors import RequestError, WorkingsError
from workings.hardware.catalog import find_target, targets
from workings.planning.compiling import check_split
from workings.planning.parts import estimated_parts, exact_parts
from workings.planning.plan import make_plan, split_parts
from workings.planning.request import mesh_of
from workings.planning.search import candidates, changed, difference
from workings.runs.plan import plan, planned_shape


def test_a_card_that_is_not_here_is_estimated_and_says_so():
    found = plan("gemma-2b-rtx5090", "rtx5090")
    assert found.verdict.source == "estimated"
    assert any("estimated by formula" in reason for reason in found.reasons)
    exact = {part.name: part.size_bytes for part in found.parts if part.certainty == "exact"}
    assert exact["parameters"] == 2 * 2506172416
    assert sum(part.size_bytes for part in found.parts) == found.verdict.peak_bytes
    assert found.as_json()["step_seconds_estimate"] > 0


def test_jax_takes_a_share_of_a_card(monkeypatch):
    assert plan("gemma-2b-rtx5090", "rtx5090").verdict.limit_bytes == 24 * 10**9
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    assert plan("gemma-2b-rtx5090", "rtx5090").verdict.limit_bytes == 16 * 10**9


def test_too_large_a_plan_comes_with_one_that_fits():
    words = ["batch.micro_batch=8", "batch.accumulation=1", "data.max_length=512", "memory.remat=none",
             "memory.loss_chunk=0"]
    found = plan("gemma-2b-rtx5090", "rtx5090", words)
    assert not found.verdict.fits
    assert found.nearest is not None
    again = plan("gemma-2b-rtx5090", "rtx5090", [*words, *found.nearest.overrides])
    assert again.verdict.fits
    assert again.verdict.peak_bytes == found.nearest.peak_bytes
    asked = load_recipe("gemma-2b-rtx5090", words).recipe.batch
    kept = load_recipe("gemma-2b-rtx5090", [*words, *found.nearest.overrides]).recipe.batch
    assert kept.micro_batch * kept.accumulation == asked.micro_batch * asked.accumulation


@pytest.mark.parametrize(("share", "certainty"), [(0.5, "by proportion"), (3.0, "unexplained")])
def test_parts_add_up_to_what_the_compiler_says(share, certainty):
    request, batch = request_of(recipe()), (1, 4, 64)
    exact = sum(exact_parts(request, batch, 1, 1).values())
    formula = sum(estimated_parts(request, batch, 1, 1, "tpu").values())
    peak = exact + int(share * formula)
    found = split_parts(request, batch, (1, 1), "tpu", Inspection(
        peak_bytes=peak, source="compiled", breakdown={"sum": peak}, versions={}))
    assert abs(sum(part.size_bytes for part in found) - peak) < 10
    assert found[-1].certainty == certainty
    assert sum(part.size_bytes for part in found if part.certainty == "exact") == exact


def test_the_least_change_comes_first():
    asked = recipe(memory={"attention": "plain", "remat": "none"}, mesh={"fsdp": 1})
    found = candidates(asked, targets()["v5e-8"])
    assert difference(asked, next(found)) == ("mesh.fsdp=auto",)
    assert difference(asked, next(found)) == ("memory.attention=auto",)


def test_no_candidate_changes_the_global_batch():
    asked = recipe(batch={"micro_batch": 4, "accumulation": 2})
    rows = {c.batch.micro_batch * c.batch.accumulation for c in candidates(asked, targets()["t4"])}
    assert rows == {8}


def test_more_devices_share_the_rows_there_are():
    asked = recipe(batch={"micro_batch": 8, "accumulation": 2}, mesh={"fsdp": 1})
    assert difference(asked, next(candidates(asked, targets()["v5e-8"]))) == (
        "batch.micro_batch=2", "batch.accumulation=1", "mesh.fsdp=auto")


def test_another_optimizer_is_written_as_one_word():
    found = difference(recipe(), changed(recipe(), {"optimizer": {"name": "adafactor"}}))
    assert found == ("optimizer={name: adafactor}",)


@pytest.mark.parametrize(("words", "said"), [
    (["mesh.fsdp=3"], "divides its 8 devices"),
    (["mesh.tp=16"], "divides the heads|divides its 8 devices"),
    (["data.max_length=9000"], "context of 8192"),
    (["model.id=google/gemma-2c"], "shape is known"),
    (["engine=other"], "a TPU's compiler"),
])
def test_what_does_not_go_together_is_refused_before_any_compiler(words, said):
    with pytest.raises(RequestError, match=said):
        plan("gemma-2b-v5e8", "v5e-8", words)


def test_heads_that_the_mesh_does_not_divide():
    with pytest.raises(RequestError, match="4 with 2 heads"):
        make_plan(recipe(mesh={"tp": 4}), shape(), find_target("v5e-8"))


def test_all_devices_share_the_rows_unless_told_otherwise():
    assert mesh_of(recipe(), targets()["v5e-256"]) == (256, 1)
    assert mesh_of(recipe(mesh={"tp": 2}), targets()["t4x2"]) == (1, 2)


def test_an_instruction_tuned_model_has_the_shape_of_its_base():
    tuned = load_recipe("gemma-2b-v5e8", ["model.id=google/gemma-3-1b-it"])
    assert planned_shape(tuned) == planned_shape(load_recipe("gemma-3-1b-v5e8"))


def test_a_program_with_an_unsplit_batch_is_no_verdict():
    found = Inspection(peak_bytes=1, source="compiled", breakdown={"sum": 1}, versions={},
                       details={"mesh": {"fsdp": 8, "tp": 1}, "tokens_per_device": [1, 8, 64]})
    with pytest.raises(WorkingsError, match="not the program that would run"):
        check_split(found, (1, 8, 64))


def test_this_machine_compiles_the_step_itself(run_python):
    done = run_python("-m", "workings", "plan", "smoke-tiny", "--on", "cpu", "--json")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["fits"] is True
    assert found["source"] == "compiled"
    assert found["target"] == "cpu"
    assert 0 < found["peak_bytes"] < found["limit_bytes"]
    assert "step_seconds_estimate" not in found


def test_the_verb_answers_and_exits(run_python):
    done = run_python("-m", "workings", "plan", "gemma-7b-nowhere", "--on", "v5e-9", check=False)
    assert done.returncode == 2
    assert "v5e-8" in done.stderr
    done = run_python("-m", "workings", "plan", "gemma-2b-t4", "--on", "t4", "memory.loss_chunk=0",
                      "data.max_length=4096", "--no-nearest", "--json", check=False)
    assert done.returncode == 1
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["fits"] is False
    assert {"fits", "peak_bytes", "limit_bytes", "devices", "source", "reasons"} <= set(found)
