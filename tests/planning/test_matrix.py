"""What fits where, at once, by formula."""

from workings.config.load import load_recipe
from workings.engines.prefill import KEPT_SHARE
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape
from workings.planning.matrix import BASE_RECIPE, METHODS, cell_overrides, matrix_cells
from workings.planning.search import estimated_programs


def test_a_cell_is_the_plan_that_its_words_ask_for():
    machines = [find_target(name) for name in ("t4", "v5e-8")]
    found = {(cell.target, method): cell.verdict for method in METHODS
             for cell in matrix_cells(["gemma-2b"], method, 2048, machines)}
    assert len(found) == 2 * len(METHODS)
    for (name, method), verdict in found.items():
        target = find_target(name)
        recipe = load_recipe(BASE_RECIPE, cell_overrides("gemma-2b", method, 2048, target)).recipe
        assert verdict.source == "estimated"
        programs = estimated_programs(recipe, published_shape("gemma-2b"), target)
        # The step decides: answering one item with one token needs less, or keeps gathered layers in free memory.
        assert verdict.peak_bytes == programs["step"]
        assert max(programs.values()) <= max(programs["step"], KEPT_SHARE * target.memory_bytes)
    assert found["t4", "full, AdamW"].fits is False
    assert found["t4", "QLoRA"].fits is True
    assert recipe.precision.compute == "bf16"
    assert load_recipe(BASE_RECIPE, cell_overrides("gemma-2b", "LoRA", 512,
                                                   machines[0])).recipe.precision.compute == "fp32"  # a T4


def test_a_question_that_makes_no_sense_says_why():
    (cell,) = matrix_cells(["gemma-2b"], "LoRA", 16384, [find_target("t4")])
    assert cell.verdict is None
    assert "at most 8192" in cell.why
