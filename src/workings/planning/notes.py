"""What else a person should know about a verdict."""

from workings.config.recipe import Recipe
from workings.engines.base import Inspection
from workings.hardware.catalog import Target, gpu_config
from workings.planning.verdict import gib


def notes(recipe: Recipe, target: Target, found: Inspection) -> list[str]:
    """Sentences about who answered, and about what fitting does not say."""
    said = []
    details = found.details
    if "refused" in details:
        said.append(f"the compiler refused: {details['refused']}")
    elif found.source == "compiled" and "tokens_per_device" in details:
        said.append(f"compiler bound; each device's program takes tokens {details['tokens_per_device']} of the "
                    f"global batch {details['batch']}")
    if found.source == "compiled" and target.platform == "gpu" and target.gpu_config:
        said.append(_told(target))
    if found.source == "estimated":
        why = details.get("why", f"no compiler was asked for {target.name}")
        said.append(f"estimated by formula: {why}; on a machine with the card, "
                    "`workings train` compiles the step and decides before any weight is loaded")
    number = recipe.precision.compute
    if number in target.no_matrix_units and target.platform != "tpu":
        said.append(f"{target.name} has no matrix units for {number}: fitting is not the same as being fast")
    asked = "gpu" if recipe.device == "cuda" else recipe.device
    if asked not in ("auto", target.platform):
        said.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return said


def _told(target: Target) -> str:
    card = gpu_config(target.gpu_config)
    how = "put together from its datasheet" if card.derived else "as XLA's own description of such a card"
    return (f"compiled by XLA for CUDA without the card, which it was told about ({how}); a real card tries several "
            "kernels and may choose others")
