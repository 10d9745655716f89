"""A line before the first step: how long an update and the run take on this machine's CPU."""

from workings.planning.calibration import LEAST_OPERATIONS, calibrated_throughput
from workings.planning.run_time import step_operations
from workings.record.number_text import about, duration
from workings.record.progress import slow_operation
from workings.runs.prepare import TrainSetup
from workings.ways.parts.row_data import TraceData

LONG_SECONDS = 3600.0
"""Longer runs are told how many steps would fit in this time."""


def expected_time(setup: TrainSetup) -> str:
    """The expected time of an update and of all steps; empty for a short run, for rollouts, or on an accelerator."""
    device, steps, data = setup.device, setup.recipe.training.steps, setup.training_data
    if device.platform != "cpu" or device.count > 1 or not isinstance(data, TraceData):
        return ""
    typical, supervised = data.batches.typical_shape()
    operations = step_operations(setup.request, typical)
    if operations * steps < LEAST_OPERATIONS:
        return ""
    with slow_operation("measuring the speed of this machine"):
        speed = calibrated_throughput(setup.request, setup.recipe.engine, typical, supervised)
    update = operations / speed.operations_a_second
    line = f"{about(update)} per update, {about(steps * update)} for {steps:,} updates; {speed.source}"
    return line if steps * update <= LONG_SECONDS else (
        f"{line}; to finish within {duration(LONG_SECONDS)}: training.steps={max(1, int(LONG_SECONDS / update))}")
