"""Number of completions that are sampled at a time: as many as fit a device's memory by formula."""

from workings.engines.base import EngineRequest, GenerationShape, Inspection, MeshShape
from workings.hardware.device import DeviceFacts
from workings.planning.memory_formulas import FORMULA_VERSIONS, forward_program_parts
from workings.planning.planned_run import MAX_PROMPTS
from workings.planning.verdict import memory_verdict

OPTIMIZER_PARTS = ("moments", "master weights")


def completions_at_a_time(request: EngineRequest, device: DeviceFacts, *, longest: int, new_tokens: int,
                    can_train: bool) -> tuple[int, str]:
    """The largest power of two up to `MAX_PROMPTS` that fits with room to spare, and the sentence that says why.

    Args:
        request: shape, number formats and method of the model.
        device: of the run.
        longest: tokens of the longest prompt.
        new_tokens: tokens of the longest completion.
        can_train: whether the optimizer's state is in memory too, as it is after a checkpoint was restored.
    """
    # Halved until it fits: eight formulas at most, and nothing is opened or compiled.
    rows = MAX_PROMPTS
    # Engines pad prompts, to a power of two at most.
    padded = 1 << (longest - 1).bit_length()
    while True:
        mesh = MeshShape(device.mesh["fsdp"], device.mesh["tp"])
        parts = forward_program_parts(request, "drawing", GenerationShape(rows, padded, new_tokens), *mesh,
                                      device.platform)
        resident = {name: size for name, size in parts.items() if can_train or name not in OPTIMIZER_PARTS}
        verdict = memory_verdict(Inspection(peak_bytes=sum(resident.values()), source="estimated", breakdown=resident,
                                   versions=FORMULA_VERSIONS), device)
        if rows == 1 or (verdict.fits and not verdict.marginal):
            return rows, f"{rows} completions at a time: {verdict.reasons[0]}"
        rows //= 2
