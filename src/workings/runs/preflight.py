"""The lines before the first step: run, device, model, data, memory, and the run directory."""

from pathlib import Path

from workings.config.training import TrainingConfig
from workings.hardware.device import row_devices
from workings.hardware.memory import gib
from workings.models.unverified import unverified_sentence
from workings.models.weights import parameter_count
from workings.runs.prepare import TrainSetup


def preflight_lines(setup: TrainSetup, out: Path, learned: str) -> list[str]:
    """One line per subject; ``learned``: the form of a completion, in the words of the chat template, or empty."""
    recipe, device, shape, weights = setup.recipe, setup.device, setup.shape, setup.weights
    batch, precision, devices = recipe.batch, recipe.precision, row_devices(device.mesh)
    digests = ", ".join(f"{name} {digest[:16]}…" for name, digest in setup.training_data.digests.items())
    return [
        f"device     {device.platform}: {device.kind}, {device.count} used, {gib(device.memory_limit_bytes)} each "
        f"({device.reason})",
        f"engine     {recipe.engine}  " + ", ".join(f"{name} {number}" for name, number in device.versions.items()),
        f"model      {weights.id} at {weights.revision}: {shape.family}, {shape.layers} layers, width {shape.width}, "
        f"vocabulary {shape.vocab_size:,}, {parameter_count(shape):,} parameters",
        *([] if shape.verified else [f"unverified {unverified_sentence(shape.family)}"]),
        f"dtypes     parameters {precision.parameters}, compute {precision.compute}, moments {precision.moments}, "
        f"rounding {precision.rounding}",
        "mesh       " + " x ".join(f"{axis}={size}" for axis, size in device.mesh.items()),
        f"batch      micro {batch.micro_batch} x accumulation {batch.accumulation} x devices {devices} = global "
        f"{batch.micro_batch * batch.accumulation * devices} rows; {recipe.training.steps:,} steps",
        f"rate       {rate_text(recipe.training)}",
        f"data       {setup.training_data.sentence()}; {digests}",
        *([f"learned    {learned}"] if learned else []),
        f"memory     {setup.verdict.reasons[0]}",
        f"writing    {out}",
    ]


def rate_text(training: TrainingConfig) -> str:
    """The learning rate over the run, with a hint if it is 0 at every step."""
    peak, last = training.learning_rate, training.learning_rate * training.final_share
    warmup = f", {training.warmup_steps:,} steps of warm-up" if training.warmup_steps else ""
    if training.schedule == "constant":
        return f"{peak:g}, constant{warmup}"
    if training.steps > 1:
        return f"{peak:g} at its peak, {training.schedule} to {last:g} at the last step{warmup}"
    # The only step is the last one as well.
    return f"{last:g} at the only step" if last else (
        "0 at the only step, which changes nothing; try: training.final_share=1")
