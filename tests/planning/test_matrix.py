"""What fits where, at once: the formula's answers, and in their place what was planned before."""

import pytest

from workings.config.load import load_recipe
from workings.engines.base import Inspection
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape
from workings.planning.inspection_cache import inspect_programs
from workings.planning.matrix import BASE_RECIPE, METHODS, cell_overrides, matrix_cells
from workings.planning.planned_run import engine_request, mesh_of, programs_of
from workings.planning.search import estimated_programs


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))


def test_a_cell_is_the_plan_that_its_words_ask_for():
    machines = [find_target(name) for name in ("t4", "v5e-8")]
    found = {(cell.target, cell.method): cell.verdict for cell in matrix_cells(["gemma-2b"], list(METHODS), 2048,
                                                                               machines)}
    assert len(found) == 2 * len(METHODS)
    for (name, method), verdict in found.items():
        target = find_target(name)
        recipe = load_recipe(BASE_RECIPE, cell_overrides("gemma-2b", method, 2048, target)).recipe
        assert verdict.source == "estimated"
        # The step decides: answering one item with one token needs less.
        assert verdict.peak_bytes == max(estimated_programs(recipe, published_shape("gemma-2b"), target).values())
    assert found["t4", "full, AdamW"].fits is False
    assert found["t4", "QLoRA"].fits is True
    assert recipe.precision.compute == "bf16"
    assert load_recipe(BASE_RECIPE, cell_overrides("gemma-2b", "LoRA", 512,
                                                   machines[0])).recipe.precision.compute == "fp32"  # a T4


def test_what_was_planned_before_takes_the_place_of_the_formula(monkeypatch):
    target = find_target("v5e-8")
    engine = find_planning_engine("jax")
    said = Inspection(peak_bytes=1234, source="compiled", breakdown={}, versions={})
    monkeypatch.setattr(engine, "inspect_for", lambda request, programs, target: dict.fromkeys(programs, said))
    recipe = load_recipe(BASE_RECIPE, cell_overrides("gemma-3-1b", "LoRA", 1024, target)).recipe
    request = engine_request(recipe, published_shape("gemma-3-1b"), target)
    inspect_programs(engine, request, programs_of(recipe, mesh_of(recipe, target).row_devices), target)
    (cell, other) = matrix_cells(["gemma-3-1b"], ["LoRA", "QLoRA"], 1024, [target])
    assert (cell.verdict.source, cell.verdict.peak_bytes) == ("compiled", 1234)
    assert other.verdict.source == "estimated"


def test_a_question_that_makes_no_sense_says_why():
    (cell,) = matrix_cells(["gemma-2b"], ["LoRA"], 16384, [find_target("t4")])
    assert cell.verdict is None
    assert "at most 8192" in cell.why
