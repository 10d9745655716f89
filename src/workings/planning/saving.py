"""Memory of saving a checkpoint in several processes: the state, and one tensor whole on every device."""

from math import prod

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import Inspection, Inspections, PlanningEngine, ProgramName
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.planning.breakdown import FROZEN_MODELS
from workings.planning.memory_formulas import FORMULA_VERSIONS, exact_parts
from workings.planning.planned_run import PlannedRun
from workings.planning.reference_and_teacher import STATE_PARTS
from workings.planning.tensors import trained_tensors

SAVING: ProgramName = "saving"
GATHERED = "a whole tensor of the checkpoint"
MAX_CHIPS_OF_A_HOST = 8
"""Most chips of a TPU that one host, and so one process of JAX, has."""


def with_saving(run: PlannedRun, engine: PlanningEngine | None, inspections: Inspections) -> Inspections:
    """Adds the saving where it needs more than every program of the run. Of a stack of layers one is gathered."""
    process_per_device = engine is None or getattr(engine, "process_per_device", False)
    if (run.recipe.checkpoint.sharded or not _gathers(run.target, run.mesh.devices, process_per_device)
            or inspections["step"].refused):
        return inspections
    state = exact_parts(run.request, BatchShape(1, run.mesh.fsdp, 1), *run.mesh.of_a_copy)
    step = inspections["step"]
    # With adapters they alone are saved, in float32; moments may have four bytes where parameters have two.
    width = 4 if run.request.method.name != "full" else max(
        BYTES_OF_FORMAT[run.request.precision.parameters], BYTES_OF_FORMAT[run.request.precision.moments])
    parts = {name: state[name] for name in STATE_PARTS if name in state} | {
        name: step.breakdown[name] for name in (*FROZEN_MODELS, *step.assumed) if name in step.breakdown} | {
        GATHERED: width * max(prod(tensor.size) for tensor in trained_tensors(run.request, 1, 1))}
    peak = sum(parts.values())
    if peak <= max(inspection.peak_bytes for inspection in inspections.values()):
        return inspections
    return {**inspections, SAVING: Inspection(peak_bytes=peak, source="estimated", breakdown=parts, exact=parts,
                                              versions=FORMULA_VERSIONS)}


def _gathers(target: Target, devices: int, process_per_device: bool) -> bool:
    """Whether tensors are gathered on devices: the run has several processes, one for each device or for each host."""
    if process_per_device or target.platform == "cpu":
        return devices > 1
    if target.platform == "tpu":
        return target.chips > MAX_CHIPS_OF_A_HOST
    return bool(target.topology) and not target.topology.startswith("1x1x")
