"""How many completions are drawn at a time: as many as a device's memory holds, by formula; nothing is compiled."""

from workings.engines.base import EngineRequest, GenerationShape, Inspection, MeshShape
from workings.hardware.device import DeviceFacts
from workings.planning.parts import FORMULA_VERSIONS, beside_the_step
from workings.planning.request import MAX_PROMPTS
from workings.planning.verdict import judge

OPTIMIZER = ("moments", "master weights")


def drawn_at_a_time(request: EngineRequest, device: DeviceFacts, *, longest: int, new_tokens: int,
                    can_train: bool) -> tuple[int, str]:
    """The largest power of two up to `MAX_PROMPTS` that fits with room to spare, and the sentence that says why.

    Args:
        request: shape, number formats and method of the model.
        device: what it runs on.
        longest: tokens of the longest prompt.
        new_tokens: of the longest completion.
        can_train: whether the optimizer's state lies in memory too, as it does after a checkpoint was restored.
    """
    # Halved until it fits: eight formulas at most, and nothing is opened or compiled.
    rows = MAX_PROMPTS
    # Engines pad prompts, to a power of two at most.
    padded = 1 << (longest - 1).bit_length()
    while True:
        mesh = MeshShape(device.mesh["fsdp"], device.mesh["tp"])
        parts = beside_the_step(request, "drawing", GenerationShape(rows, padded, new_tokens), *mesh, device.platform)
        held = {name: size for name, size in parts.items() if can_train or name not in OPTIMIZER}
        verdict = judge(Inspection(peak_bytes=sum(held.values()), source="estimated", breakdown=held,
                                   versions=FORMULA_VERSIONS), device)
        if rows == 1 or (verdict.fits and not verdict.marginal):
            return rows, f"{rows} completions at a time: {verdict.reasons[0]}"
        rows //= 2
