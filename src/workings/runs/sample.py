"""Samples completions of prompts for training, with a sealed run's model or other weights."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.engines.base import EngineRequest, GenerationShape, Inspection, MeshShape
from workings.engines.prefill import MAX_PROMPTS
from workings.evaluation.unit import refuse_existing
from workings.hardware.device import DeviceFacts
from workings.planning.forward_memory import forward_program_parts
from workings.planning.memory_formulas import FORMULA_VERSIONS
from workings.planning.verdict import Verdict, memory_verdict
from workings.record.canonical import loads
from workings.record.layout import EVALUATION_CONFIG, partial_unit_path
from workings.runs.open_model import AS_RECORDED, OpenedModel, TrainedModel, WeightsRequest, open_model
from workings.samples.draw import SampleRequest, sample
from workings.samples.unit import SampleUnit
from workings.scoring.items import Item

OPTIMIZER_PARTS = ("moments", "master weights")
"""Parts of memory that only training needs."""


def completions_at_a_time(request: EngineRequest, device: DeviceFacts, *, longest: int, new_tokens: int,
                          can_train: bool) -> tuple[int, str]:
    """The largest power of two up to `MAX_PROMPTS` that fits well within the memory, and the sentence that says why.

    The engine was opened by ``request`` on ``device``. ``longest`` and ``new_tokens`` are the tokens of the longest
    prompt and completion. ``can_train``: the optimizer's state is in memory, too, because a checkpoint was restored.
    """
    mesh = MeshShape.of(device.mesh)
    # Engines pad a prompt of 5 tokens to 8 at most.
    padded = 1 << (longest - 1).bit_length()

    def verdict_of(rows: int) -> Verdict:
        shape = mesh.share_of_a_copy(GenerationShape(rows, padded, new_tokens))
        parts = forward_program_parts(request, "drawing", shape, *mesh.of_a_copy, device.platform)
        resident = {name: size for name, size in parts.items() if can_train or name not in OPTIMIZER_PARTS}
        return memory_verdict(Inspection(peak_bytes=sum(resident.values()), source="estimated", breakdown=resident,
                                         versions=FORMULA_VERSIONS), device)

    rows, verdict = MAX_PROMPTS, verdict_of(MAX_PROMPTS)
    while rows > 1 and (not verdict.fits or verdict.marginal):
        rows //= 2
        verdict = verdict_of(rows)
    return rows, f"{rows} completions at a time: {verdict.reasons[0]}"


def sample_run(run: str | Path, prompts: Sequence[Item], out: Path, *, request: SampleRequest,
               device: str = AS_RECORDED, weights: WeightsRequest | None = None,
               say_planned_batch: Callable[[str], None] | None = None) -> SampleUnit:
    """Samples completions with a run's last checkpoint, or with other weights, and seals them at ``out``.

    Arguments and errors are those of `workings.runs.evaluate.evaluate_run`, with questions in place of items.
    ``say_planned_batch``: gets a sentence about the largest batch size that fits the device, which is then used; None:
    the request's batch size is used.
    """
    # A wrong request is refused before a model is opened, which may take minutes.
    refuse_existing(out)
    opened = open_model(run, weights, device)
    return sample(opened.session, prompts, out, request=_sized(opened, prompts, out, request, say_planned_batch),
                  made_from=opened.root, facts=opened.facts)


def _sized(opened: OpenedModel, items: Sequence[Item], out: Path, request: SampleRequest,
           say_planned_batch: Callable[[str], None] | None) -> SampleRequest:
    """The request with the batch size of an interrupted attempt, or else the largest one that fits."""
    if say_planned_batch is None or not items:
        return request
    before = partial_unit_path(out) / EVALUATION_CONFIG
    if before.is_file():
        # Another batch size might give other texts.
        rows = int(loads(before.read_bytes())["decoding"]["batch_size"])
        why = f"{rows} completions at a time, as before the interruption"
    else:
        session = opened.session
        longest = max(len(session.template.prompt_ids(item.prompt, item.history)) for item in items)
        rows, why = completions_at_a_time(
            opened.request, session.engine.describe(), longest=longest, new_tokens=request.settings.max_new_tokens,
            can_train=isinstance(opened, TrainedModel))
    say_planned_batch(why)
    return replace(request, settings=replace(request.settings, batch_size=rows))
