"""Plans of runs that learn from rewards or pairs: programs, what is next to them, time, and what makes them fit."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.planning.planning_helpers import planned_run, recipe, rewarded, shape
from workings.config.load import load_recipe, shipped_recipes
from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, GenerationShape, MeshShape
from workings.engines.jax.target import compile_for
from workings.engines.registry import find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import HOST, find_target, target_in_name, targets
from workings.planning import search
from workings.planning.forward_memory import forward_program_parts
from workings.planning.memory_formulas import exact_parts
from workings.planning.plan import make_plan
from workings.planning.planned_run import PlannedRun, engine_request, programs_of
from workings.planning.run_time import estimate_run_time, generation_seconds, step_operations
from workings.planning.search import overrides_between, with_changes
from workings.runs.plan import count_rows, plan

BF16 = {"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}


def test_programs_of_a_run_that_learns_from_rewards():
    assert programs_of(rewarded(), 1) == {"step": (2, 4, 64), "drawing": (16, 48, 16), "log_probs": (2, 4, 64)}
    assert programs_of(rewarded(), 8)["drawing"] == (128, 48, 16), "over all devices"
    assert programs_of(rewarded(), 16)["drawing"] == (128, 48, 16), "as many as an engine draws at a time"
    assert programs_of(rewarded(), 16, 128 * 16)["drawing"] == (256, 48, 16), "each device as many"
    one = rewarded(algorithm={"name": "grpo", "group": 4, "max_new_tokens": 16}, evaluation={
        "traces": "held.jsonl", "items": "eval", "max_new_tokens": 16, "batch_size": 4})
    assert set(programs_of(one, 1)) == {"step", "drawing", "evaluation", "generation"}


@pytest.mark.parametrize(("engine", "drawn"), [("jax", 128), ("torch", 256)])
def test_devices_share_a_batch_of_completions_or_have_one_each(engine, drawn):
    asked = rewarded(engine=engine, device="gpu", batch={"micro_batch": 16, "accumulation": 4})
    run = PlannedRun.on_target(asked, shape(), find_target("t4x2"), find_planning_engine(engine))
    assert run.programs["drawing"] == (drawn, 48, 16)
    each = forward_program_parts(run.request, "drawing", run.programs["drawing"], 2, 1, "gpu")
    assert each["logits"] == 3 * 4 * drawn // 2 * 96


def test_completions_that_make_no_whole_groups_are_refused():
    asked = rewarded(batch={"micro_batch": 3}, algorithm={"name": "grpo", "group": 16, "max_new_tokens": 16})
    with pytest.raises(RequestError, match="24 completions per rollout on v5e-8 do not fill groups of 16"):
        make_plan(asked, shape(), find_target("v5e-8"))
    assert engine_request(with_changes(asked, {"batch.micro_batch": 2}), shape(), find_target("v5e-8"))


def test_what_drawing_holds_by_formula():
    asked = rewarded()
    request = EngineRequest.of(asked, shape())
    drawn, answered = (forward_program_parts(request, name, GenerationShape(16, 48, 16), 1, 1, "gpu")
                       for name in ("drawing", "generation"))
    assert drawn["moments"] == exact_parts(request, (1, 1, 1), 1, 1)["moments"] > 0
    assert drawn["logits"] == 3 * answered["logits"] == 3 * 4 * 16 * 96
    assert drawn["cache of keys and values"] == 2 * 4 * 2 * 16 * 64 * 8
    # Sixteen completions of four prompts.
    assert 4 * drawn["activations of the layer at hand"] == answered["activations of the layer at hand"]
    signals = exact_parts(request, (1, 4, 64), 1, 1)["batch"] - exact_parts(
        EngineRequest.of(recipe(), shape()), (1, 4, 64), 1, 1)["batch"]
    assert signals == 2 * 4 * 4 * 64


def test_drawing_and_updating_by_hand():
    asked = rewarded(training={"steps": 100, "learning_rate": 1e-3}, precision=BF16)
    request, programs, l4 = EngineRequest.of(asked, shape()), programs_of(asked, 1), targets()["l4"]

    def timed(of, fsdp=1):
        return estimate_run_time(planned_run(of, "l4", request=request, fsdp=fsdp), 0.5, items=0)

    spent = timed(asked)
    assert (spent.training_seconds, spent.rollouts) == (50, 50)
    per_operation = 0.5 / step_operations(request, programs["step"])
    # 16 completions at once, then the forward pass of both updates' rows.
    assert spent.rollout_sampling_seconds == pytest.approx(
        generation_seconds(request, programs["drawing"], l4, MeshShape(1, 1), per_operation, read=4) + 2 * 0.5 / 3)
    assert spent.seconds == pytest.approx(
        50 + 50 * spent.rollout_sampling_seconds + spent.checkpoint_seconds * spent.checkpoints)
    assert spent.checkpoint_every_seconds == pytest.approx(500 * (0.5 + spent.rollout_sampling_seconds / 2))
    assert spent.to_json()["drawing_seconds"] == spent.rollout_sampling_seconds
    thin = with_changes(asked, {"algorithm.updates": 1})
    twice, of_64 = timed(thin, fsdp=64), programs_of(thin, 64)
    assert (of_64["drawing"][0], twice.rollouts) == (128, 100)
    one = generation_seconds(request, of_64["drawing"], l4, MeshShape(64, 1),
                             0.5 / step_operations(request, of_64["step"]), read=64, gathers_once=True)
    assert twice.rollout_sampling_seconds == pytest.approx(4 * one), "512 completions, 128 at a time"
    plain = timed(recipe(precision=BF16))
    assert plain.rollouts == 0
    assert "drawing_seconds" not in plain.to_json()


def test_devices_gather_weights_for_every_new_token():
    request, v5e = EngineRequest.of(rewarded(precision=BF16), shape()), targets()["v5e-8"]
    outer = 2 * (96 * 16 + 16)
    layers = 2 * 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
    found = [generation_seconds(request, GenerationShape(8, 1, new), v5e, MeshShape(8, 1), 0.0) for new in (1, 11)]
    each = (layers + outer / 8) / 819e9 + layers * 7 / 8 / 200e9
    assert found[1] - found[0] == pytest.approx(10 * each / 0.5)
    once = [generation_seconds(request, GenerationShape(8, 1, new), v5e, MeshShape(8, 1), 0.0, gathers_once=True)
            for new in (1, 11)]
    assert once[0] == found[0]
    assert once[1] - once[0] == pytest.approx(10 * (layers + outer / 8) / 819e9 / 0.5)
    alone = generation_seconds(request, GenerationShape(8, 1, 1), v5e, MeshShape(1, 1), 0.0)
    assert alone == pytest.approx((layers + outer) / 819e9 / 0.5)


def test_devices_gather_once_what_fits_them():
    asked = rewarded(precision=BF16)
    run = planned_run(asked, "t4x2", request=EngineRequest.of(asked, shape()), fsdp=2)
    once, every_token = (estimate_run_time(replace(run, device_bytes=memory), 0.5, items=0).rollout_sampling_seconds
                         for memory in (run.target.memory_bytes, 1000))
    assert once < every_token
    size, layers = run.programs["drawing"], 2 * 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
    for memory, kept in ((run.target.memory_bytes, layers), (1000, 0)):
        assert forward_program_parts(run.request, "drawing", size, 2, 1, "gpu", memory)["gathered layers"] == kept


MANY = ["algorithm={name: grpo, group: 8, max_new_tokens: 8192, updates: 16}", "data.max_length=8448",
        "batch={micro_batch: 1, accumulation: 8}", "evaluation.batch_size=4"]
"""128 completions of 8192 tokens."""


def test_where_drawing_does_not_fit_fewer_are_drawn_first(no_compiler):
    asked = plan("gemma-3-1b-grpo-rtx5090", "rtx5090", MANY)
    assert asked.program == "drawing"
    assert not asked.verdict.fits
    assert set(asked.peaks) == {"step", "drawing", "log_probs", "generation"}
    assert any("decided by the drawing" in reason for reason in asked.reasons)
    assert sum(part.size_bytes for part in asked.parts) == asked.verdict.peak_bytes
    word, = asked.nearest.overrides
    assert word.startswith("algorithm.updates=")
    fewer = plan("gemma-3-1b-grpo-rtx5090", "rtx5090", [*MANY, word], nearest=False).verdict
    assert (fewer.fits, fewer.peak_bytes) == (True, asked.nearest.peak_bytes)
    assert asked.to_json()["time"]["drawing_seconds"] > 0


def test_rollouts_get_smaller_by_whole_groups():
    asked = rewarded(algorithm={"name": "grpo", "group": 8, "max_new_tokens": 16, "updates": 8},
                     batch={"micro_batch": 2})
    assert [each["algorithm.updates"] for each in asked.algorithm.smaller_rollouts(asked, 1)] == [4]
    assert [each["algorithm.updates"] for each in asked.algorithm.smaller_rollouts(asked, 8)] == [4, 2, 1]


def test_completions_get_shorter_and_prompts_keep_their_room():
    asked = rewarded(algorithm={"name": "grpo", "group": 4, "max_new_tokens": 96}, data={
        "traces": "addition", "max_length": 128, "buckets": [64, 128]})
    found = [with_changes(asked, each) for each in asked.algorithm.shorter_completions(asked)]
    assert overrides_between(asked, found[0]) == ("data.max_length=80", "data.buckets=[64]",
                                                  "algorithm.max_new_tokens=48")
    assert len(found) == 1
    punished = with_changes(asked, {"rewards": [{"scorer": "answer"}, {"scorer": "overlong", "buffer": 64}]})
    assert list(punished.algorithm.shorter_completions(punished)) == []


@pytest.mark.parametrize("name", [
    name for name in shipped_recipes()
    if load_recipe(name).recipe.algorithm.examples == "prompts" and not name.endswith("-cpu")])
def test_shipped_recipes_that_learn_from_rewards_or_a_teacher(no_compiler, name):
    found = plan(name, target_in_name(name), nearest=False)
    assert set(found.peaks) - {"teacher"} == {"step", "drawing", "generation"}
    assert found.verdict.fits


@pytest.mark.slow
def test_programs_of_rewards_are_compiled_as_the_engine_runs_them():
    asked = rewarded()
    request = replace(EngineRequest.of(asked, shape()), device="cpu")
    found = {name: compile_for(request, programs_of(asked, 1)[name], HOST, program=name)
             for name in ("drawing", "log_probs")}
    for name in found:
        # With the state's number of steps.
        own_peak = max(found[name].breakdown["sum"], found[name].breakdown["compiler_peak"])
        assert found[name].peak_bytes - own_peak == found[name].exact["moments"] + 4
    assert found["drawing"].breakdown["outputs"] > 2 * 4 * 16 * 16, "tokens and their log probabilities"
    each = compile_for(replace(request, completions_of_a_prompt=1), programs_of(asked, 1)["drawing"], HOST,
                       program="drawing")
    assert found["drawing"].peak_bytes < each.peak_bytes / 2, "four prompts are read and not sixteen"


def pairs(**changes: Any) -> Recipe:
    return recipe(**{"algorithm": {"name": "dpo"}, "batch": {"micro_batch": 4, "accumulation": 2}} | changes)


def test_the_reference_is_asked_in_batches_of_the_step_for_at_most_a_third_of_its_time() -> None:
    assert programs_of(pairs(), 2) == {"step": (2, 8, 64), "log_probs": (2, 8, 64)}
    assert "log_probs" not in programs_of(recipe(), 1)
    asked = pairs(training={"steps": 30, "learning_rate": 1e-3})
    spent = estimate_run_time(planned_run(asked, "rtx5090"), 0.5, items=0)
    assert spent.reference_seconds == pytest.approx(30 * 0.5 / 3)
    without = spent.training_seconds + spent.checkpoints * spent.checkpoint_seconds
    assert spent.seconds == pytest.approx(without + 5.0)
    assert spent.to_json()["reference_seconds"] == pytest.approx(5.0)


def test_the_search_keeps_pairs_whole() -> None:
    target = find_target("v5e-8")
    assert search.halved_micro_batch(pairs(), target) == {"batch.micro_batch": 2, "batch.accumulation": 4}
    assert search.halved_micro_batch(pairs(batch={"micro_batch": 2}), target) == {}
    assert search.halved_micro_batch(recipe(batch={"micro_batch": 2}), target) == {
        "batch.micro_batch": 1, "batch.accumulation": 2}
    # Accumulation is given up before rows are.
    assert search.on_all_devices(recipe(batch={"micro_batch": 8, "accumulation": 2}, mesh={"fsdp": 1}), target) == {
        "mesh.fsdp": "auto", "batch.accumulation": 1, "batch.micro_batch": 2}
    # Eight rows over eight devices would be half a pair on each: the global batch grows instead.
    one = pairs(batch={"micro_batch": 8}, mesh={"fsdp": 1})
    assert search.on_all_devices(one, target) == {"mesh.fsdp": "auto"}
    assert search.on_all_devices(pairs(batch={"micro_batch": 16}, mesh={"fsdp": 1}), target)["batch.micro_batch"] == 2


def test_pairs_are_counted_where_the_file_is_here(tmp_path: Any) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(pairs(data={"traces": "pairs.jsonl", "max_length": 64}).model_dump(
        mode="json", exclude_unset=True)))
    assert count_rows(load_recipe(str(path))) == 0
    (tmp_path / "pairs.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    assert count_rows(load_recipe(str(path))) == 4
    assert count_rows(load_recipe(str(path), ("algorithm={name: sft}",))) == 2
