"""Verdicts that need no compiler: estimates, requests that do not go together, the search, the verb's answer."""

import json

import pytest
from typer.testing import CliRunner

from tests.planning.planning_helpers import planned_run, recipe, request_of, shape
from tests.runs.runs_helpers import refused
from workings.cli.main import app
from workings.engines.base import Inspection
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.planning.breakdown import largest_part_sentence, split_parts
from workings.planning.memory_formulas import exact_parts
from workings.planning.planned_run import mesh_of
from workings.planning.search import candidates, overrides_between
from workings.planning.step_memory import largest_phase_parts
from workings.runs.plan import plan


def test_without_a_compiler_it_is_estimated_and_says_what_to_install(no_compiler):
    found = plan("gemma-2b-rtx5090", "rtx5090")
    assert found.verdict.source == "estimated"
    said = next(reason for reason in found.reasons if "estimated by formula" in reason)
    assert "jax-cuda12-plugin" in said
    assert "pip install 'workings[plan]'" in said
    assert set(found.peaks) == {"step", "generation"}
    exact = {part.name: part.size_bytes for part in found.parts if part.certainty == "exact"}
    assert exact["parameters"] == 2 * 2506172416
    assert sum(part.size_bytes for part in found.parts) == found.verdict.peak_bytes
    assert found.to_json()["step_seconds_estimate"] > 0


def test_jax_takes_a_share_of_a_card(no_compiler, monkeypatch):
    card = targets()["rtx5090"].memory_bytes
    assert plan("gemma-2b-rtx5090", "rtx5090").verdict.limit_bytes == int(card * 0.95)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    assert plan("gemma-2b-rtx5090", "rtx5090").verdict.limit_bytes == card // 2


@pytest.mark.parametrize(("share", "certainty"), [(0.5, "by proportion"), (3.0, "unexplained")])
def test_parts_add_up_to_what_the_compiler_says(share, certainty):
    request, batch = request_of(recipe()), (1, 4, 64)
    exact = sum(size for name, size in exact_parts(request, batch, 1, 1).items() if name != "gradients")
    formula = sum(largest_phase_parts(request, batch, 1, 1, "tpu").values())
    peak = exact + int(share * formula)
    found = split_parts(planned_run(recipe(), "v5e-1", request=request, step=batch), "step", Inspection(
        peak_bytes=peak, source="compiled", breakdown={"sum": peak}, versions={}))
    assert abs(sum(part.size_bytes for part in found) - peak) < 10
    assert found[-1].certainty == certainty
    assert sum(part.size_bytes for part in found if part.certainty == "exact") == exact


@pytest.mark.slow
def test_no_candidate_changes_the_global_batch_and_adapters_are_the_last_resort():
    asked = recipe(precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"},
                   batch={"micro_batch": 2, "accumulation": 2})
    every = [*candidates(asked, targets()["t4"], shape())]
    assert {each.batch.micro_batch * each.batch.accumulation for each in every} == {4}
    found = [overrides_between(asked, each) for each in every]
    methods = [next((word for word in words if word.startswith("method=")), "") for words in found]
    assert methods == sorted(methods, key=["", "method={name: lora}", "method={name: qlora}"].index)
    assert any("memory.attention=auto" in words for words in found)
    lora = next(words for words in found if "method={name: lora}" in words)
    assert set(lora) == {"method={name: lora}", "precision.rounding=nearest"}


@pytest.mark.parametrize(("words", "said"), [
    (["mesh.fsdp=3"], "does not divide the devices"),
    (["mesh.tp=16"], "does not divide the"),
    (["data.max_length=9000"], "at most 8192"),
    (["model.id=google/gemma-2c"], "shape is known"),
    (["engine=other"], "the TPU's compiler"),
])
def test_what_does_not_go_together_is_refused_before_any_compiler(words, said):
    with pytest.raises(RequestError, match=said):
        plan("gemma-2b-v5e8", "v5e-8", words)


def test_all_devices_share_the_rows_unless_told_otherwise():
    assert mesh_of(recipe(), targets()["v5e-256"]).axes() == {"fsdp": 256, "tp": 1}
    assert mesh_of(recipe(mesh={"tp": 2}), targets()["t4x2"]).axes() == {"fsdp": 1, "tp": 2}
    copies = mesh_of(recipe(mesh={"replicate": 4, "tp": 2}), targets()["v5e-256"])
    assert (copies.axes(), copies.row_devices) == ({"replicate": 4, "fsdp": 32, "tp": 2}, 128)
    with pytest.raises(RequestError, match=r"mesh\.replicate x mesh\.fsdp x mesh\.tp = 3 x 2 x 1 does not divide"):
        mesh_of(recipe(mesh={"replicate": 3}), targets()["v5e-8"])


def test_the_verb_answers_and_exits(no_compiler):
    assert "v5e-8" in refused("plan", "gemma-7b-nowhere", "--on", "v5e-9")
    done = CliRunner().invoke(app, ["plan", "gemma-2b-rtx5090", "--on", "t4", "memory.loss_chunk=0",
                                    "data.max_length=4096", "--no-nearest", "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["fits"], found["source"]) == (False, "estimated")
    assert any("the package jax-cuda12-plugin" in reason for reason in found["reasons"])
    assert {"peak_bytes", "limit_bytes", "devices"} <= set(found)


def test_several_targets_at_once(no_compiler):
    asked = ["plan", "gemma-3-1b-v5e8", "--on", "v5e-8,rtx5090", "--on", "t4", "--no-nearest"]
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout.splitlines()[-1])
    assert [each["target"] for each in found["plans"]] == ["v5e-8", "rtx5090", "t4"]
    assert found["fits"] == all(each["fits"] for each in found["plans"])
    lines = CliRunner().invoke(app, asked).stdout.splitlines()
    assert lines[0].split()[:3] == ["target", "fits", "peak"]
    assert [line.split()[0] for line in lines[1:]] == ["v5e-8", "rtx5090", "t4"]


def test_a_plan_counts_at_most_so_many_steps_and_says_so_where_data_are_absent(no_compiler):
    asked = ("training.epochs=2",)
    here = plan("smoke-tiny", "h100", asked, nearest=False)
    assert here.time.steps == 2 * 500 // 4
    assert any("at most 250 = 2 epochs of 500 rows" in reason for reason in here.reasons)
    copies = plan("smoke-tiny", "t4x2", (*asked, "mesh.replicate=2", "mesh.fsdp=1"), nearest=False)
    assert copies.time.steps == 500 // 4, "each copy has its own rows"
    absent = plan("smoke-tiny", "h100", (*asked, "data.traces=elsewhere.jsonl"), nearest=False)
    assert absent.time is None
    assert any("needs the data to count steps, and they are not on this machine" in reason for reason in absent.reasons)


def test_the_largest_part_is_a_group_of_parts(no_compiler):
    words = ["optimizer={name: adamw}", "precision.parameters=fp32", "precision.rounding=nearest",
             "batch.accumulation=1"]
    found = plan("gemma-2b-rtx5090", "t4", words, nearest=False)
    assert "optimizer state, 18.67 GiB" in found.largest_part
    assert "(exact)" in found.largest_part
    assert largest_part_sentence(found.parts, 1, 8, found.verdict).startswith("7 of 8 devices are idle")
