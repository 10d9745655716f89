"""What else a person should know about a verdict."""

from workings.config.recipe import Recipe
from workings.engines.base import Inspection
from workings.hardware.catalog import Target, gpu_config
from workings.hardware.device import without_alias
from workings.hardware.memory import gib


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
    if found.source == "traced":
        said += _traced(found)
    number = recipe.precision.compute
    if number in target.no_matrix_units and target.platform != "tpu":
        said.append(f"{target.name} has no matrix units for {number}: fitting is not the same as being fast")
    asked = without_alias(recipe.device)
    if asked not in ("auto", target.platform):
        said.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return said


def _told(target: Target) -> str:
    card = gpu_config(target.gpu_config)
    how = "put together from its datasheet" if card.derived else "as XLA's own description of such a card"
    return (f"compiled by XLA for CUDA without the card, which it was told about ({how}); a real card tries several "
            "kernels and may choose others")


def _traced(found: Inspection) -> list[str]:
    details = found.details
    if details["platform"] != "gpu":
        return ["traced: the engine's own step under fake tensors, two updates; bytes that are alive at one time",
                *details["notes"]]
    said = [f"traced without the card: the engine's own {details['program']} under fake tensors, then a replay of "
            f"PyTorch's allocator: {gib(details['live_bytes'])} in use, {gib(details['reserved_bytes'])} reserved, "
            f"{gib(details['context_bytes'])} assumed for CUDA itself"]
    if "out_of_memory" in details:
        said.append(f"PyTorch's allocator would give up on this card: {details['out_of_memory']}")
    elif details["cache_given_back"]:
        said.append(f"it fits only because the allocator gives cached blocks back {details['cache_given_back']} times")
    if details["kernel_workspaces"]:
        said.append("workspace inside of kernels is declared, not seen: "
                    + ", ".join(sorted(details["kernel_workspaces"])))
    return said + list(details["notes"])
