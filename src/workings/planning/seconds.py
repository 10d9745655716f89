"""How long a run would take, from operations, bytes, the machine's rates and a stated efficiency.

Nothing here was measured on the target unless runs of the person who asks say so (`history.py`). Durations are read
and written as people write them: ``9h``, ``90m``, ``1h30m``, ``45s``.
"""

import re
from dataclasses import dataclass, replace
from math import log10
from typing import Any

from workings.config.algorithms import Distill, RolloutAlgorithm, TeacherAlgorithm
from workings.config.method import FULL
from workings.config.recipe import Recipe
from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, MeshShape, ProgramShape, ProgramShapes
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.models.operations import attention_operations, outer_weights_met, weights_met, weights_read
from workings.models.weights import PER_LAYER_EMBEDDING
from workings.planning.communication import communication_seconds
from workings.planning.parts import checkpoint_bytes, exact_parts, prompts_read
from workings.planning.tensors import local_tensors
from workings.record.number_text import duration, percent

EFFICIENCY = 0.4
"""Share of the peak rate that a tuned training step reaches (published: Levanter 35 to 54 %, MaxText 39.8 %)."""
BANDWIDTH_SHARE = 0.5
"""Share of the bandwidth, of memory and between devices, that writing tokens reaches; an assumption."""
DISK_BYTES_A_SECOND = 200e6
"""Rate at which a checkpoint is written; an assumption (a plain SSD)."""
FLOP_UNITS = ("flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop", "Eflop")
"""Each is 1000 times the one before."""
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds of the units in which durations are written."""
WRITTEN = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))+")
PIECE = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """How fast this machine trains: operations a second of one device, and who says so."""

    operations_a_second: float
    source: str


@dataclass(frozen=True, kw_only=True)
class RunTime:
    """Seconds of a whole run, and the disk that its checkpoints take."""

    step_seconds: float
    steps: int
    checkpoint_seconds: float
    """Of one checkpoint."""
    checkpoints: int
    checkpoint_bytes: int
    """Of one checkpoint."""
    kept: int
    """Checkpoints that lie on the disk at one time, the one being written included."""
    checkpoint_every_seconds: float
    looking_seconds: float
    """Held-out losses, samples and answers to the items, over the whole run."""
    not_counted: tuple[str, ...]
    drawing_seconds: float = 0.0
    """Of one rollout: all its completions, of the greatest length, and how likely the model finds them where several
    updates learn from it."""
    rollouts: int = 0
    reference_seconds: float = 0.0
    """Of asking the reference about preference pairs, at most: each batch of the run, or of its first epoch, once."""

    teacher_seconds: float = 0.0
    """Of asking a teacher, at most: about each batch of the run, or about each of its first epoch once."""

    @property
    def training_seconds(self) -> float:
        """All steps, without drawing."""
        return self.steps * self.step_seconds

    @property
    def rollout_seconds(self) -> float:
        """All rollouts."""
        return self.rollouts * self.drawing_seconds

    @property
    def seconds(self) -> float:
        """Everything that is counted."""
        return (self.training_seconds + self.reference_seconds + self.teacher_seconds + self.rollout_seconds
                + self.checkpoints * self.checkpoint_seconds + self.looking_seconds)

    @property
    def disk_bytes(self) -> int:
        """Of all checkpoints that lie there at one time."""
        return self.kept * self.checkpoint_bytes

    def share_by(self, deadline: float) -> float:
        """Share of the steps that are done by a deadline, in seconds; what follows training does not count."""
        return min(1.0, deadline / self.seconds)

    def as_json(self) -> dict[str, Any]:
        """As a JSON value."""
        drawn = {"drawing_seconds": self.drawing_seconds, "rollouts": self.rollouts} if self.rollouts else {}
        if self.reference_seconds:
            drawn["reference_seconds"] = self.reference_seconds
        if self.teacher_seconds:
            drawn["teacher_seconds"] = self.teacher_seconds
        return {"seconds": self.seconds, "step_seconds": self.step_seconds, "steps": self.steps,
                "training_seconds": self.training_seconds, "checkpoints": self.checkpoints,
                "checkpoint_seconds": self.checkpoint_seconds, "checkpoint_bytes": self.checkpoint_bytes,
                "checkpoint_every_seconds": self.checkpoint_every_seconds, "disk_bytes": self.disk_bytes,
                "evaluation_seconds": self.looking_seconds, "not_counted": list(self.not_counted), **drawn}


def step_operations(request: EngineRequest, batch: ProgramShape) -> float:
    """Floating-point operations of one update over all devices: matrix products only, a multiply and an add each.

    Forward is 2 x parameters in matrices x tokens, backward twice that (with frozen weights once, for they get no
    gradient), and with ``remat: layer`` the layers' forward once more. Attention scores count the causal half. Products
    outside of the layers, with the vocabulary and of per-layer embeddings, are never computed again.
    """
    shape = request.shape
    accumulation, rows, length = batch
    rows *= accumulation
    tokens = rows * length
    matrices = weights_met(shape)
    # Two products, scores and weighted values; a position sees itself and what is before it, about half of all.
    attention = float(rows * attention_operations(replace(shape, sliding_window=0), length))
    head = 2.0 * (shape.vocab_size * shape.width + outer_weights_met(shape)) * tokens
    again = 1 if request.memory.remat == "layer" else 0
    weights = 3 if request.method.name == "full" else 2
    # Scores have no weights that could be frozen: with adapters, too, their backward costs twice their forward.
    return (weights + again) * 2.0 * matrices * tokens + (3 + again) * attention + weights * head


def _forward_operations(request: EngineRequest, batch: ProgramShape) -> float:
    """Those of a model that is asked and not trained."""
    full_training = replace(request, method=FULL, memory=request.memory.model_copy(update={"remat": "none"}))
    return step_operations(full_training, batch) / 3


def pace_of(request: EngineRequest, target: Target, own: Throughput | None = None) -> tuple[Throughput | None, str]:
    """How fast the target trains, by this person's own runs or else by its peak rate; None and why without either."""
    if own is not None:
        return own, own.source
    compute = request.precision.compute
    if compute not in target.rates_tflops or not target.bandwidth_gb_s:
        return None, f"no step time: the catalog has no {compute} rate for {target.name}"
    rate = target.rates_tflops[compute]
    how = (f"{percent(EFFICIENCY, 0)} of {rate:g} Tflop/s ({compute}) a device; an assumption about efficiency, "
           "not a measurement")
    return Throughput(operations_a_second=rate * 1e12 * EFFICIENCY, source=how), how


def flop_text(operations: float) -> str:
    """Operations in the unit that people use: ``321 Tflop``."""
    unit = min(int(log10(max(1.0, operations)) // 3), len(FLOP_UNITS) - 1)
    return f"{operations / 1000 ** unit:.3g} {FLOP_UNITS[unit]}"


def step_seconds(request: EngineRequest, batch: BatchShape, target: Target, mesh: MeshShape,
                 own: Throughput | None = None) -> tuple[float | None, str]:
    """Seconds of one step, and how they came about; None and the reason where no rate is known.

    What devices send to each other is added to the computing. Finished runs have it in their pace.
    """
    pace, how = pace_of(request, target, own)
    if pace is None:
        return None, how
    operations, devices = step_operations(request, batch), mesh.devices
    computing = operations / (pace.operations_a_second * devices)
    how = f"step time: {flop_text(operations)} on {devices} device{'s' * (devices > 1)} at {how}"
    if own is not None or devices == 1:
        return computing, how
    sending = communication_seconds(request, batch, target, mesh, BANDWIDTH_SHARE)
    if sending is None:
        return computing, f"{how}; without what devices send to each other, for which the catalog has no rate"
    return computing + sending, (f"{how}; {duration(sending)} of it for what devices send to each other, at "
                                 f"{percent(BANDWIDTH_SHARE, 0)} of their links' rates and with nothing of it hidden")


def run_time(recipe: Recipe, request: EngineRequest, programs: ProgramShapes, target: Target, devices: int, step: float,
             *, items: int, held_out: int, teacher: EngineRequest | None = None) -> RunTime:
    """Seconds of the whole run.

    Args:
        recipe: says how many steps, checkpoints and looks.
        request: the same, as an engine takes it.
        programs: of this run, with their batches.
        target: the machine.
        devices: of the mesh.
        step: seconds of one step.
        items: questions that are asked; 0 where there are none or their number is not known.
        held_out: rows of held-out traces; 0 likewise.
        teacher: what its engine is asked for; None without one, and its time is then not counted.
    """
    # The pace of the steps is the only one that is known, so everything that computes is timed by it.
    per_operation = step / step_operations(request, programs["step"])
    _, step_rows, _ = programs["step"]
    fsdp = step_rows // recipe.batch.micro_batch
    mesh = MeshShape(fsdp, max(1, devices // fsdp))
    steps, every = recipe.training.steps, recipe.checkpoint.every_steps
    checkpoint = checkpoint_bytes(request)
    looking, missing = 0.0, []
    if "evaluation" in programs or "generation" in programs:
        looks = max(1, steps // recipe.evaluation.every_steps)
        if "evaluation" in programs:
            _, rows, _ = programs["evaluation"]
            # A third of a step, because backward costs about twice as much as forward.
            forward = per_operation * step_operations(request, programs["evaluation"]) / 3
            looking += looks * -(-held_out // rows) * forward
            missing += [] if held_out else ["held-out losses, whose number of rows is not known here"]
        if "generation" in programs:
            prompts, *_ = programs["generation"]
            batch = answer_seconds(request, programs["generation"], target, mesh, per_operation)
            # The untrained model answers the same items once more.
            asked = -(-items // prompts) * (2 if recipe.evaluation.base else 1)
            looking += batch * (asked + (looks if recipe.evaluation.samples else 0))
            missing += [] if items else ["answers to the items, whose number is not known here"]
    if fsdp > 1 and not target.interconnect_gb_s and {"generation", "drawing"} & set(programs):
        missing.append("weights that devices gather for every new token")
    drawing, rollouts = 0.0, 0
    if isinstance(recipe.algorithm, RolloutAlgorithm):
        rollouts = -(-steps // recipe.algorithm.updates)
        drawing = rollout_seconds(recipe, request, programs, target, mesh, per_operation)
        missing += [] if isinstance(recipe.algorithm, Distill) else ["rewards"]
        if recipe.algorithm.max_sampling_rounds > 1:
            missing += ["further draws in place of groups without spread"]
    teaching = 0.0
    if teacher is not None:
        # Every batch that is drawn is read once. Of traces each row is, so that this is the most it can be.
        teaching = steps * per_operation * _forward_operations(teacher, programs["step"])
    elif isinstance(recipe.algorithm, TeacherAlgorithm):
        missing.append("what the teacher says")
    return RunTime(
        step_seconds=step, steps=steps, checkpoint_bytes=checkpoint, checkpoints=-(-steps // every),
        checkpoint_seconds=checkpoint / DISK_BYTES_A_SECOND, kept=recipe.checkpoint.keep_last + 1,
        checkpoint_every_seconds=every * (step + drawing * rollouts / steps), looking_seconds=looking,
        drawing_seconds=drawing, rollouts=rollouts,
        # A third of a step, because backward costs about twice as much as forward.
        reference_seconds=steps * step / 3 if recipe.learns_from_pairs else 0.0, teacher_seconds=teaching,
        not_counted=("reading data and weights, compiling", *missing))


def rollout_seconds(recipe: Recipe, request: EngineRequest, programs: ProgramShapes, target: Target,
                    mesh: MeshShape, per_operation: float) -> float:
    """Seconds to draw the completions of one rollout, as many at a time as an engine draws.

    Where several updates learn from them, the model that drew them says first how likely it finds them.
    """
    rows, *_ = programs["drawing"]
    batches = -(-recipe.completions_of_a_rollout(mesh.fsdp) // rows)
    read = prompts_read(request, "drawing", -(-rows // mesh.fsdp)) * mesh.fsdp
    seconds = batches * answer_seconds(request, programs["drawing"], target, mesh, per_operation, read=read)
    if "log_probs" in programs and isinstance(recipe.algorithm, RolloutAlgorithm):
        seconds += recipe.algorithm.updates * per_operation * step_operations(request, programs["log_probs"]) / 3
    return seconds


def answer_seconds(request: EngineRequest, prompts: ProgramShape, target: Target, mesh: MeshShape,
                   per_operation: float, *, read: int = 0) -> float:
    """Seconds to answer one batch of prompts of the greatest length with as many new tokens as there may be.

    Reading the prompts is computing; writing a token reads every weight once, which takes the memory's bandwidth. On
    several devices each also gathers, for every token, the layers' weights that the others of ``fsdp`` hold. ``read``:
    prompts that are read, where several answers continue one; 0: as many as answers.
    """
    rows, length, new = prompts
    forward = per_operation * (step_operations(request, BatchShape(1, read or rows, length)) / 3)
    if not target.bandwidth_gb_s:
        return forward + per_operation * 2.0 * weights_read(request.shape) * rows * new
    fsdp, tp = mesh
    # Of per-layer embeddings a token reads one row, so that they are among neither.
    outer = BYTES_OF_FORMAT[request.precision.parameters] * sum(
        each.elements for each in local_tensors(request.shape, 1, 1)
        if not each.in_layer and each.name != PER_LAYER_EMBEDDING)
    layers = (exact_parts(request, BatchShape(1, 1, 1), 1, 1)["parameters"] - outer) / tp
    # Of the embedding a device reads its own part: a few rows travel there, not weights.
    token = (layers + outer / (fsdp * tp)) / target.bandwidth_gb_s
    if target.interconnect_gb_s:
        token += layers * (1 - 1 / fsdp) / target.interconnect_gb_s
    return forward + new * token / (1e9 * BANDWIDTH_SHARE)


def parse_duration(text: str) -> float:
    """Seconds of a time as people write it. Raises `RequestError` for anything else, and for no time at all."""
    written = text.strip().lower()
    # `findall` passes over what it does not know, so the whole text is matched as well.
    seconds = sum(float(number) * UNITS[unit] for number, unit in PIECE.findall(written))
    if not WRITTEN.fullmatch(written) or seconds <= 0:
        raise RequestError(f"--deadline {text}", "a time such as 9h, 90m or 1h30m", "--deadline 9h")
    return seconds
