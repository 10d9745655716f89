"""What else a person should know about a verdict."""

from workings.config.recipe import Recipe
from workings.engines.base import Inspection
from workings.hardware.catalog import Target
from workings.hardware.device import without_alias


def notes(recipe: Recipe, target: Target, inspection: Inspection, batch: tuple[int, int, int]) -> list[str]:
    """Sentences about who answered about a program's ``batch``, and about what fitting does not say."""
    said = []
    if inspection.refused:
        said.append(f"the compiler refused: {inspection.refused}")
    elif inspection.source == "compiled" and inspection.tokens_per_device:
        said.append(f"compiler bound; each device's program takes tokens {list(inspection.tokens_per_device)} of the "
                    f"global batch {list(batch)}")
    if inspection.source == "estimated":
        why = inspection.why_estimated or f"no compiler was asked for {target.name}"
        said.append(f"estimated by formula: {why}; on a machine with the card, "
                    "`workings train` compiles the step and decides before any weight is loaded")
    said += inspection.notes
    number = recipe.precision.compute
    if number in target.no_matrix_units and target.platform != "tpu":
        said.append(f"{target.name} has no matrix units for {number}: fitting is not the same as being fast")
    asked = without_alias(recipe.device)
    if asked not in ("auto", target.platform):
        said.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return said
