"""Memory of vLLM next to a run: what it takes is not left for the trainer."""

from dataclasses import replace

import pytest

from workings.config.load import load_recipe
from workings.hardware.catalog import find_target
from workings.hardware.device import DeviceFacts
from workings.models.shapes import published_shape
from workings.models.weights import parameter_count
from workings.planning.further_memory import next_to_sampler, sampler_parts
from workings.planning.plan import make_plan

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
