"""A line before the first step: how long an update and the run take on this machine's CPU."""

from workings.planning.calibration import LEAST_OPERATIONS, calibrated_throughput
from workings.planning.run_time import step_operations
from workings.record.number_text import about, duration
from workings.record.progress import slow_operation
from workings.runs.prepare import TrainSetup

LONG_SECONDS = 3600.0
"""Longer runs get a warning, in seconds."""


def expected_time(setup: TrainSetup) -> str:
    """The expected time of an update and of all steps; empty for a short run, or on an accelerator.

    Counts steps only. Empty for runs that learn from completions, which spend most of their time elsewhere.

    Raises:
        WorkingsError: the speed of the machine could not be measured.
    """
    device, steps = setup.device, setup.schedule.steps
    shape = setup.training_data.typical_shape() if device.platform == "cpu" and device.count == 1 else None
    if shape is None:
        return ""
    typical, supervised = shape
    operations = step_operations(setup.request, typical)
    if operations * steps < LEAST_OPERATIONS:
        return ""
    with slow_operation("measuring the speed of this machine"):
        speed = calibrated_throughput(setup.request, setup.recipe.engine, typical, supervised)
    update = operations / speed.operations_a_second
    line = f"{about(update)} per update, {about(steps * update)} for {steps:,} updates; {speed.source}"
    if steps * update <= LONG_SECONDS:
        return line
    return f"{line}; to finish within {duration(LONG_SECONDS)}: training.steps={max(1, int(LONG_SECONDS / update))}"
