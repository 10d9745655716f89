"""Plans with a frozen model or a server of vLLM next to the trained model, counted by hand."""

import json
from dataclasses import replace

import pytest

from tests.planning.planning_helpers import recipe, shape
from workings.config.load import load_recipe
from workings.config.method import LoraConfig
from workings.engines.base import EngineRequest, Inspection, MeshShape
from workings.hardware.catalog import find_target
from workings.hardware.device import DeviceFacts
from workings.models.shapes import published_shape, to_hf_config
from workings.models.weights import parameter_count
from workings.planning.further_memory import (
    TEACHER,
    model_weight_bytes,
    next_to_sampler,
    sampler_parts,
    with_resident,
    with_teacher,
)
from workings.planning.memory_formulas import exact_parts
from workings.planning.plan import make_plan
from workings.planning.search import estimated_programs, plan_with_nearest, smaller_teacher, with_changes
from workings.runs.plan import plan
from workings.ways.parts.teacher import TeacherModel, teacher_request

LARGE = replace(shape(), layers=3, width=32, mlp_width=64)
STUDENT = recipe(algorithm={"name": "distill", "teacher": "somewhere", "teacher_precision": "bf16", "group": 1,
                            "max_new_tokens": 16})

WITH_TEACHER = TeacherModel(shape=LARGE)
ONE_DEVICE = MeshShape(1, 1)


def asked(precision="bf16", teacher=WITH_TEACHER):
    return teacher_request(EngineRequest.of(STUDENT, shape()), teacher, precision)


def test_bytes_of_a_teacher_by_its_precision():
    count = parameter_count(LARGE)
    assert model_weight_bytes(asked("fp32"), ONE_DEVICE) == 4 * count
    assert model_weight_bytes(asked("bf16"), ONE_DEVICE) == 2 * count
    # 7 matrices a layer: 4 bits and a float32 scale for 64 numbers each, and adapters of rank 1 with them.
    matrices = 2 * 16 * 32 + 2 * 8 * 32 + 3 * 64 * 32
    adapters = 2 * (16 + 32) + 2 * (8 + 32) + 3 * (64 + 32)
    assert model_weight_bytes(asked("nf4"), ONE_DEVICE) == 2 * (count - 3 * matrices) + 3 * (
        matrices // 2 + 4 * (matrices // 64) + 4 * adapters)


def test_a_teacher_with_adapters_keeps_them_next_to_weights_in_any_format():
    tuned = TeacherModel(shape=LARGE, method=LoraConfig(name="lora", rank=4, alpha=8, target_modules=("q_proj",)))
    for precision, method in (("bf16", "lora"), ("nf4", "qlora")):
        found = asked(precision, tuned)
        assert found.method.name == method
        assert found.method.model_dump(exclude={"name"}) == tuned.method.model_dump(exclude={"name"})
    assert model_weight_bytes(asked("bf16", tuned), ONE_DEVICE) == model_weight_bytes(asked(),
        ONE_DEVICE) + 3 * 4 * 4 * (16 + 32)


def test_both_are_in_memory_whichever_is_at_work():
    student = EngineRequest.of(STUDENT, shape())
    step = Inspection(peak_bytes=1000, source="compiled", breakdown={"temporaries": 1000}, versions={},
                      exact={"parameters": 10})
    said = Inspection(peak_bytes=5000, source="compiled", breakdown={"temporaries": 500}, versions={},
                      exact={"parameters": 500, "moments": 4000})
    found = with_teacher(student, asked(), ONE_DEVICE, {"step": step}, said, stays_loaded=True)
    size, state = model_weight_bytes(asked(), ONE_DEVICE), exact_parts(student, (1, 1, 1), 1, 1)
    assert found["step"].peak_bytes == 1000 + size
    assert found["step"].exact == {"parameters": 10, TEACHER: size}
    # The teacher has no moments, and the student's state waits next to it.
    assert found[TEACHER].peak_bytes == 5000 - 4000 + state["parameters"] + state["moments"]
    assert "moments" not in found[TEACHER].exact
    # One that is asked before the first step only is gone by then.
    gone = with_teacher(student, asked(), ONE_DEVICE, {"step": step}, said, stays_loaded=False)
    assert (gone["step"].peak_bytes, gone[TEACHER]) == (1000, found[TEACHER])
    assert with_resident(replace(step, exact={}),
                         {TEACHER: 1}).exact == {}, "it would pass for all that the program holds"


@pytest.mark.usefixtures("no_compiler")
def test_a_plan_names_the_teacher_and_its_parts_add_up():
    target = find_target("rtx5090")
    for teacher in (TeacherModel(shape=each) for each in (LARGE, replace(LARGE, mlp_width=65536))):
        plan = make_plan(STUDENT, shape(), target, teacher=teacher)
        assert set(plan.peaks) == {"step", "drawing", TEACHER}
        assert sum(part.size_bytes for part in plan.parts) == plan.verdict.peak_bytes
        alone = make_plan(STUDENT, shape(), target)
        size = model_weight_bytes(teacher_request(EngineRequest.of(STUDENT, shape()), teacher, "bf16"), ONE_DEVICE)
        assert plan.peaks["step"] == alone.peaks["step"] + size
        assert max(estimated_programs(STUDENT, shape(), target, teacher).values()) >= max(
            estimated_programs(STUDENT, shape(), target).values()) + size
    assert plan.program == TEACHER, "the wide one needs the most while it is asked"
    assert {"parameters of the student", "moments of the student"} <= {part.name for part in plan.parts}


@pytest.mark.usefixtures("no_compiler")
def test_on_traces_a_teacher_is_not_in_memory_during_a_step():
    on_traces = recipe(algorithm={"name": "distill_traces", "teacher": "somewhere", "top_k": 4})
    target = find_target("rtx5090")
    found, alone = make_plan(on_traces, shape(), target, teacher=WITH_TEACHER), make_plan(on_traces, shape(), target)
    assert set(found.peaks) == {"step", TEACHER}
    assert found.peaks["step"] == alone.peaks["step"]
    assert found.peaks[TEACHER] > model_weight_bytes(asked(), ONE_DEVICE)


@pytest.mark.usefixtures("no_compiler")
def test_a_teacher_that_does_not_fit_is_stored_in_fewer_bits():
    huge = replace(LARGE, layers=40, width=4096, mlp_width=16384)
    precise = with_changes(STUDENT, {"algorithm.teacher_precision": "fp32"})
    found = plan_with_nearest(precise, shape(), find_target("rtx5090"), teacher=TeacherModel(shape=huge))
    assert not found.verdict.fits
    assert found.nearest is not None
    assert found.nearest.overrides == ("algorithm.teacher_precision=bf16",)
    for precision, smaller in (("bf16", {"algorithm.teacher_precision": "nf4"}), ("nf4", {})):
        asked = with_changes(STUDENT, {"algorithm.teacher_precision": precision})
        assert smaller_teacher(asked, find_target("rtx5090")) == smaller
    assert smaller_teacher(recipe(), find_target("rtx5090")) == {}


@pytest.mark.usefixtures("no_compiler")
def test_a_teacher_reads_each_row_of_traces_once(tmp_path):
    (tmp_path / "traces.jsonl").write_text("{}\n" * 40)
    (tmp_path / "config.json").write_text(json.dumps(to_hf_config(shape())))
    asked = recipe(algorithm={"name": "distill_traces", "teacher": str(tmp_path), "top_k": 4},
                   precision={"parameters": "bf16", "compute": "bf16"},
                   data={"traces": str(tmp_path / "traces.jsonl"), "max_length": 64})
    five, ten, twenty = (plan(with_changes(asked, {"training.steps": steps}).model_dump(
        mode="json", exclude_unset=True), "rtx5090", nearest=False).time.teacher_seconds for steps in (5, 10, 20))
    # Four rows per step: ten steps meet each of the forty once.
    assert twenty == pytest.approx(ten)
    assert five == pytest.approx(ten / 2)


CARD = DeviceFacts(platform="gpu", kind="card", count=1, memory_limit_bytes=32 << 30, memory_limit_source="the card",
                   mesh={"fsdp": 1, "tp": 1}, versions={}, reason="")
WORDS = ("method={name: lora, rank: 16}", "precision.rounding=nearest")
SHAPE = published_shape("gemma-3-1b")
WEIGHTS = 2 * parameter_count(SHAPE)


@pytest.mark.parametrize(("sampler", "taken"), [
    ("vllm", 0.9), ("{name: vllm, arguments: [--gpu-memory-utilization, '0.3']}", 0.3),
    ("{name: vllm, arguments: ['--gpu-memory-utilization=0.5']}", 0.5)])
def test_a_server_takes_its_share_of_a_card(sampler: str, taken: float) -> None:
    recipe = load_recipe("gemma-3-1b-grpo-rtx5090", [*WORDS, f"sampler={sampler}"]).recipe
    parts = sampler_parts(recipe, SHAPE, CARD)
    assert parts == {"vLLM: weights": WEIGHTS, "vLLM: cache": int(taken * (32 << 30)) - WEIGHTS}
    left = next_to_sampler(CARD, parts)
    assert left.memory_limit_bytes == (32 << 30) - int(taken * (32 << 30))
    assert left.memory_limit_source.startswith("the card, less ")


def test_a_server_that_runs_elsewhere_takes_nothing_and_one_on_a_cpu_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("gemma-3-1b-grpo-rtx5090", [*WORDS, "sampler={name: vllm, url: 'http://10.0.0.2:8000'}"]).recipe
    assert sampler_parts(recipe, SHAPE, CARD) == {}
    assert next_to_sampler(CARD, {}) is CARD
    started = load_recipe("gemma-3-1b-grpo-rtx5090", [*WORDS, "sampler=vllm"]).recipe
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    assert sampler_parts(started, SHAPE, replace(CARD, platform="cpu")) == {
        "vLLM: weights": WEIGHTS, "vLLM: cache": 4 << 30}


@pytest.mark.parametrize(("taken", "fits"), [(0.3, True), (0.95, False)])
def test_a_plan_shows_both_and_refuses_what_does_not_fit_together(no_compiler: None, taken: float, fits: bool) -> None:
    recipe = load_recipe("gemma-3-1b-grpo-rtx5090", [*WORDS, "engine=jax"]).recipe
    sampler = load_recipe("gemma-3-1b-grpo-rtx5090", [
        *WORDS, f"sampler={{name: vllm, arguments: [--gpu-memory-utilization, '{taken}']}}"]).recipe.sampler
    found = make_plan(recipe.model_copy(update={"sampler": sampler}), SHAPE, find_target("rtx5090"))
    assert found.verdict.fits is fits
    assert found.to_json()["sampler_parts"]["vLLM: weights"] == WEIGHTS
