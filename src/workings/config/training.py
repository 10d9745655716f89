"""Recipe sections about how a step is taken: batch, training, optimizer, precision, memory, mesh, checkpoint."""

import shlex
from collections.abc import Sequence
from math import prod
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, ValidationInfo, model_validator

from workings.config.section import Section, refused, written_keys


class BatchConfig(Section):
    """Global batch = `micro_batch` x `accumulation` x data-parallel devices, in rows."""

    micro_batch: int = Field(ge=1)
    """Rows that one device computes at a time."""
    accumulation: int = Field(default=1, ge=1)
    """Micro batches whose gradients are summed, weighted by supervised tokens, before one update."""


class TrainingConfig(Section):
    """How many updates, at which learning rate."""

    steps: int = Field(ge=1)
    """Number of optimizer updates."""
    learning_rate: float = Field(gt=0, strict=False)
    """Peak learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """Shape of the learning rate after warm-up, down to `learning_rate * final_share`."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of linear warm-up from zero."""
    final_share: float = Field(default=0.0, ge=0, le=1, strict=False)
    """Learning rate at the last step as a share of the peak; 0: that step changes nothing (not used by `constant`)."""

    @model_validator(mode="after")
    def warmup_ends_before_the_run(self) -> Self:
        """A warm-up as long as the run would never reach the learning rate that was asked for."""
        if self.warmup_steps >= self.steps and self.warmup_steps > 0:
            raise ValueError(f"warmup_steps ({self.warmup_steps}) must be below steps ({self.steps})")
        return self

    @model_validator(mode="after")
    def constant_schedule_has_no_final_share(self, info: ValidationInfo) -> Self:
        """A learning rate that stays has no end value."""
        given = written_keys(self, info, {"final_share"}, name="training")
        if given and self.schedule == "constant":
            raise refused(f"{given} with training.schedule: constant",
                          "no `training.final_share`: a constant learning rate has no end value",
                          "leave it out, or training.schedule=cosine")
        return self


class AdamWFields(Section):
    """Settings of AdamW, however its moments are stored."""

    beta1: float = Field(default=0.9, ge=0, lt=1, strict=False)
    """Decay of the first moment."""
    beta2: float = Field(default=0.999, ge=0, lt=1, strict=False)
    """Decay of the second moment."""
    epsilon: float = Field(default=1e-8, gt=0, strict=False)
    """Added to the root of the second moment."""
    weight_decay: float = Field(default=0.0, ge=0, strict=False)
    """Decoupled decay, applied to matrices and not to norms."""
    clip_norm: float = Field(default=0.0, ge=0, strict=False)
    """Gradients are scaled down to this global norm; 0 switches clipping off."""


class AdamWConfig(AdamWFields):
    """AdamW (Loshchilov and Hutter, 2019), decoupled weight decay on matrices only."""

    name: Literal["adamw"]
    """AdamW."""

    def state_bytes(self, size: Sequence[int], *, number: int, in_layer: bool) -> int:
        """Bytes of optimizer state for one tensor.

        Args:
            size: of the tensor, as one device holds it.
            number: bytes of a stored moment (`precision.moments`).
            in_layer: whether the tensor belongs to a layer or an adapter, not to the embedding, head or last norm.
        """
        return 2 * prod(size) * number


class AdamW8bitConfig(AdamWFields):
    """AdamW with moments in 8 bits, in blocks of 256 (Dettmers et al., 2022); engine `torch`, needs bitsandbytes."""

    name: Literal["adamw8bit"]
    """AdamW, moments in 8 bits."""

    def state_bytes(self, size: Sequence[int], *, number: int, in_layer: bool) -> int:
        """As `AdamWConfig.state_bytes`: a byte a moment, and the largest value of every block of 256 in fp32."""
        return 2 * prod(size) + 2 * 4 * prod(size) // 256


class MuonConfig(AdamWFields):
    """Muon (Jordan, 2024) for the matrices of the layers, AdamW for embeddings, norms and biases; engine `jax`."""

    name: Literal["muon"]
    """Momentum made orthogonal."""
    momentum: float = Field(default=0.95, ge=0, lt=1, strict=False)
    """Decay of the momentum (optax: `beta`)."""
    nesterov: bool = True
    """Nesterov's momentum."""
    ns_steps: int = Field(default=5, ge=1)
    """Newton-Schulz iterations."""
    adjust_lr: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """Factor on a matrix's update (PyTorch: `adjust_lr_fn`): `0.2 * max(out, in) ** 0.5`, with which AdamW's learning
    rates fit (Liu et al., 2025), or `original`, `max(1, out / in) ** 0.5`."""

    def state_bytes(self, size: Sequence[int], *, number: int, in_layer: bool) -> int:
        """As `AdamWConfig.state_bytes`: one moment for the layers' matrices, AdamW's two for all else."""
        return (1 if in_layer and len(size) == 2 else 2) * prod(size) * number


class AdafactorConfig(Section):
    """Adafactor (Shazeer and Stern, 2018) over Hugging Face's 2-D matrices, temporaries bounded."""

    name: Literal["adafactor"]
    """Adafactor."""
    decay_power: float = Field(default=0.8, gt=0, strict=False)
    """Second-moment decay is 1 - step ** -decay_power."""
    clip_threshold: float = Field(default=1.0, gt=0, strict=False)
    """Root mean square above which an update is scaled down."""
    epsilon: float = Field(default=1e-30, gt=0, strict=False)
    """Added to squared gradients."""
    weight_decay: float = Field(default=0.0, ge=0, strict=False)
    """Decoupled decay, applied to matrices and not to norms."""
    clip_norm: float = Field(default=0.0, ge=0, strict=False)
    """Gradients are scaled down to this global norm; 0 switches clipping off."""

    def state_bytes(self, size: Sequence[int], *, number: int, in_layer: bool) -> int:
        """As `AdamWConfig.state_bytes`: a row and a column of a matrix, the whole of a vector."""
        return sum(size) * number


OptimizerConfig = Annotated[AdamWConfig | AdamW8bitConfig | AdafactorConfig | MuonConfig, Field(discriminator="name")]


BYTES_OF_FORMAT = {"fp32": 4, "bf16": 2}
"""Bytes of one number, by the names of `PrecisionConfig`."""


class PrecisionConfig(Section):
    """Number formats of what is stored and what is computed."""

    parameters: Literal["fp32", "bf16"] = "fp32"
    """Stored weights."""
    compute: Literal["fp32", "bf16"] = "fp32"
    """Matrix products and activations."""
    moments: Literal["fp32", "bf16"] = "fp32"
    """Optimizer state."""
    rounding: Literal["nearest", "stochastic", "master_fp32"] = "nearest"
    """How an update reaches bf16 weights; with fp32 weights only `nearest` has a meaning."""

    @model_validator(mode="after")
    def fp32_parameters_round_to_nearest(self) -> Self:
        """What makes up for the few digits of bf16 has no meaning for weights that have them all."""
        if self.parameters == "fp32" and self.rounding != "nearest":
            raise refused(f"precision.rounding: {self.rounding} with fp32 parameters",
                          "nearest: an fp32 weight keeps the whole update", "precision.rounding=nearest")
        return self


class MemoryConfig(Section):
    """What is kept, recomputed or never made whole."""

    attention: Literal["auto", "plain", "chunked", "flash"] = "auto"
    """Attention function; `auto` takes the best one that this device runs."""
    remat: Literal["none", "dots", "layer"] = "none"
    """Which activations are recomputed in backward (PyTorch: gradient checkpointing): `dots` keeps the results of
    products with weights (engine `jax`), `layer` a layer's input only."""
    loss_chunk: int = Field(default=0, ge=0)
    """Positions whose logits exist at one time; 0: all of a micro batch."""
    optimizer_in_backward: bool = False
    """Each gradient is used and freed as soon as it is complete (engine `torch`); not with accumulation or clipping."""


class MeshConfig(Section):
    """How many devices share parameters (`fsdp`) and matrices (`tp`)."""

    fsdp: int | Literal["auto"] = "auto"
    """Devices over which rows and parameters are split; `auto`: all that `tp` leaves."""
    tp: int = Field(default=1, ge=1)
    """Devices over which each matrix is split."""


class CheckpointConfig(Section):
    """When a complete state is saved, and how many are kept."""

    every_steps: int = Field(default=500, ge=1)
    """Steps between checkpoints; the last step is always saved."""
    keep_last: int = Field(default=2, ge=1)
    """Number of newest checkpoints that stay."""


class EvaluationConfig(Section):
    """What is measured during and after training."""

    traces: str = "none"
    """Held-out traces for the evaluation loss, or `none`."""
    items: str = "none"
    """Questions that the finished model is asked (and that samples are drawn from), or `none`."""
    every_steps: int = Field(default=250, ge=1)
    """Steps between two evaluation losses and samples."""
    samples: int = Field(default=2, ge=0)
    """Completions written to the log at each interval."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest completion, in tokens."""
    batch_size: int = Field(default=64, ge=1)
    """Prompts that are answered at a time."""
    base: bool = True
    """Whether the untrained model is asked the items as well, once for all runs that start from it."""

    @model_validator(mode="after")
    def keys_belong_to_traces_or_items(self, info: ValidationInfo) -> Self:
        """Without items nothing is asked, and without traces as well nothing is measured during training."""
        if self.items != "none":
            return self
        unused = {"samples", "max_new_tokens", "batch_size", "base"}
        beside, expected = "evaluation.items: none", "`evaluation.items`: these keys say how items are asked"
        if self.traces == "none":
            unused |= {"every_steps"}
            beside = "neither evaluation.items nor evaluation.traces"
            expected = "`evaluation.items`; for `every_steps` alone, `evaluation.traces` is enough"
        if given := written_keys(self, info, unused, name="evaluation"):
            kept = self.model_dump(mode="json", include=self.model_fields_set - unused)
            without = yaml.safe_dump(kept, default_flow_style=True, sort_keys=False, width=1000).strip()
            raise refused(f"{given} with {beside}", expected,
                          f"evaluation.items=eval, or without them: {shlex.quote(f'evaluation={without}')}")
        return self
