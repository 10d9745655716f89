"""The lines before the first step: run, device, model, data, memory, and the run directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workings.config.recipe import Recipe
from workings.config.training import TrainingConfig
from workings.hardware.device import DeviceFacts, row_devices
from workings.hardware.memory import gib
from workings.models.shape import ModelShape
from workings.models.unverified import unverified_sentence


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """The model that a run trains."""

    id: str
    """Repository or folder of its weights."""
    revision: str
    shape: ModelShape
    parameters: int


def preflight_lines(*, recipe: Recipe, device: DeviceFacts, model: ModelFacts, data: str,
                    data_digests: Mapping[str, str], memory: str, out: Path, learned: str = "") -> list[str]:
    """One line per subject; ``learned``: the form of a completion, in the words of the chat template."""
    mesh = " x ".join(f"{axis}={size}" for axis, size in device.mesh.items())
    data_parallel = row_devices(device.mesh)
    batch, precision, shape = recipe.batch, recipe.precision, model.shape
    total = batch.micro_batch * batch.accumulation * data_parallel
    return [
        f"device     {device.platform}: {device.kind}, {device.count} used, {gib(device.memory_limit_bytes)} each "
        f"({device.reason})",
        f"engine     {recipe.engine}  " + ", ".join(f"{name} {number}" for name, number in device.versions.items()),
        f"model      {model.id} at {model.revision}: {shape.family}, {shape.layers} layers, width {shape.width}, "
        f"vocabulary {shape.vocab_size:,}, {model.parameters:,} parameters",
        *([] if shape.verified else [f"unverified {unverified_sentence(shape.family)}"]),
        f"dtypes     parameters {precision.parameters}, compute {precision.compute}, moments {precision.moments}, "
        f"rounding {precision.rounding}",
        f"mesh       {mesh}",
        f"batch      micro {batch.micro_batch} x accumulation {batch.accumulation} x devices {data_parallel} "
        f"= global {total} rows; {recipe.training.steps:,} steps",
        f"rate       {rate_text(recipe.training)}",
        f"data       {data}; " + ", ".join(f"{name} {digest[:16]}…" for name, digest in data_digests.items()),
        *([f"learned    {learned}"] if learned else []),
        f"memory     {memory}",
        f"writing    {out}",
    ]


def untuned_turns_lines(recipe: Recipe, model: str) -> list[str]:
    """A line if a pretrained model learns in Gemma's turns although its tokenizer has no chat template."""
    # Tuned models ship the template of their turns; the vocabulary of a base model has the marks all the same.
    if recipe.model.source != "pretrained" or recipe.data.template not in ("gemma", "gemma4"):
        return []
    return [f"turns      the tokenizer of {model} has no chat template, so the model was probably never tuned on turns "
            "and learns them now; try: data.template=plain"]


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
