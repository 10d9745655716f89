"""Estimated seconds of a run: its operations and bytes, divided by the machine's rates at an assumed efficiency.

Only a CPU's speed is measured (`calibration`).
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from workings.config.method import FULL
from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, GenerationShape, MeshShape, ProgramName, ProgramShape
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.models.operations import attention_operations, outer_weights_met, weights_met, weights_read
from workings.planning import memory_formulas
from workings.planning.forward_memory import gathered_layer_bytes, prompts_to_read
from workings.planning.planned_run import PlannedRun
from workings.record.number_text import duration, percent
from workings.ways.parts.rollout_batch import rollout_way

EFFICIENCY = 0.4
"""Share of the peak rate that a tuned training step reaches (published: Levanter 35 to 54 %, MaxText 39.8 %)."""
BANDWIDTH_SHARE = 0.5
"""Share of the bandwidth that a device's memory and its links to other devices reach; an assumption."""
DISK_BYTES_A_SECOND = 200e6
"""Rate at which a checkpoint is written; an assumption (a plain SSD)."""
SUMS_OF_A_LAYER = 2
"""Sums over ``tp`` in a layer's forward: the outputs of attention and of the feed-forward. Backward has as many."""


class Throughput(NamedTuple):
    """Training speed of a machine: operations a second of one device, and the source of the number."""

    operations_a_second: float
    source: str


@dataclass(frozen=True, kw_only=True)
class RunTime:
    """Seconds of a whole run, and the disk space of its checkpoints."""

    step_seconds: float
    steps: int
    checkpoint_seconds: float
    """Seconds to write one checkpoint."""
    checkpoints: int
    checkpoint_bytes: int
    """Size of one checkpoint."""
    checkpoints_on_disk: int
    """The most that exist at one time, including the one that is being written."""
    checkpoint_every_seconds: float
    evaluation_seconds: float
    """Held-out losses, samples and answers to the items, over the whole run."""
    not_counted: tuple[str, ...]
    """What the estimate leaves out, a clause each."""
    rollout_sampling_seconds: float = 0.0
    """Seconds of one rollout: all its completions at the greatest length and, if several updates use them, their log
    probabilities."""
    rollouts: int = 0
    reference_seconds: float = 0.0
    """Seconds of the reference's log probabilities, which are computed at most once for each batch."""
    teacher_seconds: float = 0.0
    """Seconds of the teacher's log probabilities, which are computed at most once for each batch."""

    @property
    def training_seconds(self) -> float:
        """All steps, without rollouts."""
        return self.steps * self.step_seconds

    @property
    def rollout_seconds(self) -> float:
        """Sampling of all rollouts."""
        return self.rollouts * self.rollout_sampling_seconds

    @property
    def disk_bytes(self) -> int:
        """Bytes of all checkpoints that exist at one time."""
        return self.checkpoints_on_disk * self.checkpoint_bytes

    @property
    def seconds(self) -> float:
        """Everything that is counted."""
        return (self.training_seconds + self.reference_seconds + self.teacher_seconds + self.rollout_seconds
                + self.checkpoints * self.checkpoint_seconds + self.evaluation_seconds)

    def to_json(self) -> dict[str, Any]:
        """Keys of `time` in ``plan --json``."""
        values = vars(self) | {"seconds": self.seconds, "training_seconds": self.training_seconds,
                               "disk_bytes": self.disk_bytes, "not_counted": list(self.not_counted)}
        del values["checkpoints_on_disk"]
        values["drawing_seconds"] = values.pop("rollout_sampling_seconds")
        optional = ("drawing_seconds", "rollouts", "reference_seconds", "teacher_seconds")
        return {key: value for key, value in values.items() if value or key not in optional}


def step_operations(request: EngineRequest, batch: ProgramShape) -> float:
    """Floating-point operations of one update over all devices. Only matrix products count: a multiply and an add each.

    Forward costs 2 x weights x tokens. Backward costs twice that, or as much as forward if the weights are frozen and
    get no gradient. ``remat: layer`` computes the forward of the layers, without the head, once more.
    """
    shape = request.shape
    accumulation, rows_of_micro_batch, length = batch
    rows = accumulation * rows_of_micro_batch
    tokens = rows * length
    attention = float(rows * attention_operations(replace(shape, sliding_window=0), length))
    head = 2.0 * (shape.vocab_size * shape.width + outer_weights_met(shape)) * tokens
    # Numbers of passes that cost as much as a forward. Attention scores have no weights that could be frozen.
    recomputed = 1 if request.memory.remat == "layer" else 0
    passes = 3 if request.method.name == "full" else 2
    return (passes + recomputed) * 2.0 * weights_met(shape) * tokens + (3 + recomputed) * attention + passes * head


def step_seconds(request: EngineRequest, batch: BatchShape, target: Target, mesh: MeshShape,
                 measured: Throughput | None = None) -> tuple[float | None, str]:
    """Seconds of one step, and a sentence about their source; None and the reason if no rate is known.

    A ``measured`` speed includes communication between devices; otherwise its time is added to that of computing.
    """
    compute_format, devices = request.precision.compute, mesh.devices
    throughput = measured
    if throughput is None:
        if compute_format not in target.rates_tflops or not target.bandwidth_gb_s:
            return None, f"no step time: the catalog has no {compute_format} rate for {target.name}"
        rate = target.rates_tflops[compute_format]
        throughput = Throughput(rate * 1e12 * EFFICIENCY, f"{percent(EFFICIENCY, 0)} of {rate:g} Tflop/s "
                                f"({compute_format}) a device; an assumption about efficiency, not a measurement")
    computing = step_operations(request, batch) / (throughput.operations_a_second * devices)
    explanation = f"step time: {devices} device{'s' if devices > 1 else ''} at {throughput.source}"
    if measured is not None or devices == 1:
        return computing, explanation
    sending = communication_seconds(request, batch, target, mesh)
    if sending is None:
        return computing, f"{explanation}; without what devices send to each other, for which the catalog has no rate"
    return computing + sending, (f"{explanation}; {duration(sending)} of it for what devices send to each other, at "
                                 f"{percent(BANDWIDTH_SHARE, 0)} of their links' rates and with nothing of it hidden")


def estimate_run_time(run: PlannedRun, step: float, *, items: int, teacher: EngineRequest | None = None) -> RunTime:
    """Seconds of the whole run, from the seconds of one ``step``.

    ``items``: number of evaluation items, 0 if it is not known. ``teacher``: the request to the teacher's engine;
    without it the teacher's time is not counted.
    """
    recipe, programs, way, steps = run.recipe, run.programs, run.recipe.algorithm, run.recipe.training.steps
    # Only the speed of the steps is known, so it serves for all computing.
    seconds_per_operation = step / step_operations(run.request, run.step)
    evaluation, missing = _evaluation_time(run, seconds_per_operation, items)
    if run.mesh.fsdp > 1 and not run.target.interconnect_gb_s and {"generation", "drawing"} & set(programs):
        missing.append("weights that devices gather to write answers")
    rollouts, sampling = 0, 0.0
    if way.examples == "prompts":
        rollouts = ceil(steps / rollout_way(recipe).updates)
        sampling = rollout_sampling_seconds(run, seconds_per_operation)
    if recipe.rewards:
        missing.append("rewards")
        if rollout_way(recipe).max_sampling_rounds > 1:
            missing.append("further samples in place of groups with equal rewards")
    teaching = 0.0
    if teacher is not None:
        # At most every row of the run is read once. Forward is a third of full training without recomputation.
        full = replace(teacher, method=FULL, memory=teacher.memory.model_copy(update={"remat": "none"}))
        teaching = steps * seconds_per_operation * step_operations(full, run.step) / 3
    elif way.teacher_keys is not None:
        missing.append("the teacher's log probabilities")
    update_seconds = step + sampling * rollouts / steps
    steps_per_checkpoint = recipe.checkpoint.every_steps
    if minutes := recipe.checkpoint.every_minutes:
        steps_per_checkpoint = min(steps_per_checkpoint, ceil(60 * minutes / update_seconds))
    checkpoints, checkpoint_size = ceil(steps / steps_per_checkpoint), memory_formulas.checkpoint_bytes(run.request)
    return RunTime(
        step_seconds=step, steps=steps, checkpoint_bytes=checkpoint_size, checkpoints=checkpoints,
        checkpoint_seconds=checkpoint_size / DISK_BYTES_A_SECOND,
        checkpoints_on_disk=min(checkpoints, recipe.checkpoint.keep_last + 1),
        checkpoint_every_seconds=steps_per_checkpoint * update_seconds, evaluation_seconds=evaluation,
        rollout_sampling_seconds=sampling, rollouts=rollouts,
        # A third of a step, because backward costs about twice as much as forward.
        reference_seconds=steps * step / 3 if way.reads_reference_first else 0.0, teacher_seconds=teaching,
        not_counted=("reading data and weights, compiling", *missing))


def _evaluation_time(run: PlannedRun, seconds_per_operation: float, items: int) -> tuple[float, list[str]]:
    """Seconds of all evaluations of the run, and clauses about what these leave out."""
    recipe, programs = run.recipe, run.programs
    missing = ["held-out losses, whose number of rows is not known here"] if "evaluation" in programs else []
    if "generation" not in programs:
        return 0.0, missing
    prompts, *_ = programs["generation"]
    batch_seconds = generation_seconds(run.request, programs["generation"], run.target, run.mesh, seconds_per_operation,
                                       gathers_once=_gathers_once(run, "generation"))
    # The untrained model answers the same items, too.
    batches = ceil(items / prompts) * (2 if recipe.evaluation.base else 1)
    if recipe.evaluation.samples:
        batches += max(1, recipe.training.steps // recipe.evaluation.every_steps)
    if not items:
        missing.append("answers to the items, whose number is not known here")
    return batch_seconds * batches, missing


def rollout_sampling_seconds(run: PlannedRun, seconds_per_operation: float) -> float:
    """Seconds to sample the completions of one rollout, in the engine's batches.

    If several updates use them, their log probabilities under the sampling model are computed as well.
    """
    request, mesh, shape, way = run.request, run.mesh, run.programs["drawing"], rollout_way(run.recipe)
    rows, *_ = shape
    batches = ceil(way.completions_of_a_rollout(run.recipe.batch, mesh.row_devices) / rows)
    # Each device reads its own prompts, so the number is rounded by device.
    read = prompts_to_read(request, "drawing", ceil(rows / mesh.row_devices)) * mesh.row_devices
    seconds = batches * generation_seconds(request, shape, run.target, mesh, seconds_per_operation, read=read,
                                           gathers_once=_gathers_once(run, "drawing"))
    if way.updates > 1:
        seconds += way.updates * seconds_per_operation * step_operations(request, run.step) / 3
    return seconds


def _gathers_once(run: PlannedRun, program: ProgramName) -> bool:
    share = run.mesh.share_of_a_copy(run.programs[program])
    assert isinstance(share, GenerationShape)  # both programs that write answers have one
    return gathered_layer_bytes(run.request, share, *run.mesh.of_a_copy, run.device_bytes) > 0


def generation_seconds(request: EngineRequest, prompts: ProgramShape, target: Target, mesh: MeshShape,
                       seconds_per_operation: float, *, read: int = 0, gathers_once: bool = False) -> float:
    """Seconds to generate the most new tokens for one batch of prompts of the greatest length.

    Operations decide the time to read the prompts. Memory bandwidth decides the time to write a token, because every
    weight is read for it. Each device of ``fsdp`` also receives the layers' weights of all others, for every token or
    once (``gathers_once``). ``read``: number of prompts, if several answers continue a prompt; 0: as many as answers.
    """
    rows, length, new_tokens = prompts
    forward = seconds_per_operation * (step_operations(request, BatchShape(1, read or rows, length)) / 3)
    # Without a bandwidth only operations are known, and writing tokens looks faster than it is.
    if not target.bandwidth_gb_s:
        return forward + seconds_per_operation * 2.0 * weights_read(request.shape) * rows * new_tokens
    fsdp, tp = mesh.of_a_copy
    # A token reads a single row of the per-layer embeddings, so neither number of bytes has them.
    outer_bytes = BYTES_OF_FORMAT[request.precision.parameters] * memory_formulas.outer_elements(request, 1)
    layer_bytes = (memory_formulas.exact_parts(request, BatchShape(1, 1, 1), 1, 1)["parameters"] - outer_bytes) / tp
    # Each device reads its own piece of the embedding; only a few rows travel. The rates are in GB a second.
    token_nanoseconds = (layer_bytes + outer_bytes / (fsdp * tp)) / target.bandwidth_gb_s
    gathering_nanoseconds = 0.0
    if target.interconnect_gb_s:
        gathering_nanoseconds = layer_bytes * (1 - 1 / fsdp) / target.interconnect_gb_s
    nanoseconds = new_tokens * token_nanoseconds + (1 if gathers_once else new_tokens) * gathering_nanoseconds
    return forward + nanoseconds / (1e9 * BANDWIDTH_SHARE)


class Traffic(NamedTuple):
    """Bytes that one device receives in one update."""

    between_devices: float
    """Over the links of a slice or between GPUs."""
    between_slices: float
    """One device's share of the bytes that its slice receives from the other slices."""


def traffic_of_an_update(request: EngineRequest, batch: BatchShape, mesh: MeshShape, slices: int = 1) -> Traffic:
    """Bytes that one device receives in one update. The devices are spread evenly over ``slices``.

    Devices of ``fsdp`` gather weights and sum gradients, devices of ``tp`` sum outputs of layers, and copies of the
    parameters sum gradients. A device that has one of n pieces receives the others, (n - 1) / n of all bytes.
    """
    fsdp, tp = mesh.of_a_copy
    trains_all = request.method.name == "full"
    stored_bytes = BYTES_OF_FORMAT[request.precision.parameters]
    trained = sum(tensor.elements for tensor in memory_formulas.trained_tensors(request, 1, tp) if tensor.in_layer)
    layer_gradients = trained * (stored_bytes if trains_all else 4)
    table_gradients = stored_bytes * memory_formulas.outer_elements(request, tp) if trains_all else 0
    in_a_copy = batch.accumulation * (_gathered_bytes(request, tp) + layer_gradients)
    # Copies gather nothing from each other. They sum all gradients: JAX for each micro batch, PyTorch once per update.
    gradients = layer_gradients + table_gradients
    between_copies = batch.accumulation * gradients / fsdp * 2 * (1 - 1 / mesh.replicate)
    # The devices of a copy are neighbors: with as many copies as slices, each copy is within one slice. If a copy of 8
    # devices is on 2 slices, the 4 devices of a slice receive half of the bytes together from the other slice.
    slices_of_a_copy = max(1, slices // mesh.replicate)
    across = in_a_copy * (1 - 1 / slices_of_a_copy) / (fsdp / slices_of_a_copy)
    between_devices = in_a_copy * (1 - 1 / fsdp) + _output_sum_bytes(request, batch, mesh)
    if slices > 1:
        return Traffic(between_devices=between_devices, between_slices=across + between_copies)
    return Traffic(between_devices=between_devices + between_copies, between_slices=across)


def _gathered_bytes(request: EngineRequest, tp: int) -> float:
    """Bytes of the layers' weights on one of ``tp`` devices, which ``fsdp`` gathers for forward and for backward."""
    if not request.split_frozen and request.method.name != "full":
        return 0.0
    stored, compute = BYTES_OF_FORMAT[request.precision.parameters], BYTES_OF_FORMAT[request.precision.activations]
    # Tables are split by rows over all devices. Only rows of a batch and sums of them travel, which are few bytes.
    # Weights are converted to the format of the computing before they travel, if that is smaller.
    smaller = 1.0 if request.method.name == "qlora" else min(stored, compute) / stored
    return 2 * memory_formulas.layer_bytes(request, tp) * smaller


def _output_sum_bytes(request: EngineRequest, batch: BatchShape, mesh: MeshShape) -> float:
    """Bytes that a device of ``tp`` receives to sum the outputs of layers: each sum is scattered, then gathered."""
    passes = 3 if request.memory.remat == "layer" else 2
    sums = passes * SUMS_OF_A_LAYER * request.shape.layers * batch.accumulation
    rows, compute_bytes = batch.rows // mesh.row_devices, BYTES_OF_FORMAT[request.precision.activations]
    return sums * 2 * (1 - 1 / mesh.tp) * rows * batch.positions * request.shape.width * compute_bytes


def communication_seconds(request: EngineRequest, batch: BatchShape, target: Target, mesh: MeshShape) -> float | None:
    """Seconds of an update's traffic at `BANDWIDTH_SHARE` of the target's rates; None if the catalog has no rates."""
    if not target.interconnect_gb_s or (target.slices > 1 and not target.network_gb_s):
        return None
    traffic = traffic_of_an_update(request, batch, mesh, target.slices)
    network = traffic.between_slices / target.network_gb_s if target.slices > 1 else 0.0
    return (traffic.between_devices / target.interconnect_gb_s + network) / (1e9 * BANDWIDTH_SHARE)
