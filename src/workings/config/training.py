"""Recipe sections of training: batch, training, optimizer, precision, memory, mesh, checkpoint, evaluation."""

import shlex
from abc import abstractmethod
from collections.abc import Sequence
from math import cos, pi, prod
from typing import Annotated, ClassVar, Literal, Self

import yaml
from pydantic import Field, ValidationInfo, model_validator

from workings.config.section import AS_WRITTEN, Section, refused, written_keys


class BatchConfig(Section):
    """Global batch = `micro_batch` x `accumulation` x data-parallel devices, in rows."""

    micro_batch: int = Field(ge=1)
    """Rows that one device computes at a time."""
    # It costs no memory for activations.
    accumulation: int = Field(default=1, ge=1)
    """Micro batches whose gradients are summed, weighted by supervised tokens, before one update."""


class TrainingConfig(Section):
    """Number of updates and learning rate. Either `steps` or `epochs` gives the number."""

    # pydantic does not check defaults: 0 means not written, and a written 0 is refused.
    steps: int = Field(default=0, ge=1)
    """Number of optimizer updates; computed from `epochs` if that is given."""
    epochs: float = Field(default=0.0, ge=0)
    """Number of passes over all rows, also a fraction such as 0.5; 0: `steps` gives the number of updates."""
    learning_rate: float = Field(gt=0)
    """Peak learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """Shape of the learning rate after warm-up, down to `learning_rate * final_share`."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of linear warm-up from zero."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Learning rate at the last step as a share of the peak; 0: that step changes nothing (not used by `constant`)."""

    @model_validator(mode="after")
    def _keys_fit_together(self, info: ValidationInfo) -> Self:
        if not self.steps and not self.epochs:
            raise refused("neither training.steps nor training.epochs", "one of the two", "training.steps=100")
        # The resolved recipe of a run has both.
        if self.steps and self.epochs and info.context == AS_WRITTEN:
            raise refused(f"training.steps: {self.steps} and training.epochs: {self.epochs:g}", "one of the two",
                          "leave one of them out")
        if 0 < self.steps <= self.warmup_steps:
            raise refused(f"training.warmup_steps: {self.warmup_steps} with training.steps: {self.steps}",
                          "fewer warm-up steps than steps", f"training.warmup_steps={self.steps // 10}")
        given = written_keys(self, info, {"final_share"}, name="training")
        if given and self.schedule == "constant":
            raise refused(f"{given} with training.schedule: constant",
                          "no `training.final_share`: a constant learning rate has no end value",
                          "leave it out, or training.schedule=cosine; training.final_share=null leaves out that "
                          "of a recipe")
        return self

    def rate_at(self, step: int) -> float:
        """Learning rate of update number ``step``, from 1: a pure function, so that a resumed run needs no state.

        With 4 warm-up steps, 8 steps and ``final_share: 0``, a linear schedule takes 1/4, 2/4, 3/4, 4/4, 3/4, 2/4, 1/4
        and 0 of the peak. The schedules of transformers are the same curve one step later.
        """
        if not 1 <= step <= self.steps:
            raise ValueError(f"step {step} is outside 1..{self.steps}")
        if step <= self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        share = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        # The share of the way from the last rate up to the peak: 1 after the warm-up, 0 at the last step.
        height = {"constant": 1.0, "linear": 1.0 - share, "cosine": 0.5 * (1.0 + cos(pi * share))}[self.schedule]
        last = 1.0 if self.schedule == "constant" else self.final_share
        return self.learning_rate * (last + (1.0 - last) * height)


MomentFormat = Literal["fp32", "bf16", "uint8"]
MomentShapes = dict[str, tuple[tuple[int, ...], MomentFormat]]
"""Slot -> shape and number format."""
BYTES_OF_FORMAT = {"fp32": 4, "bf16": 2, "uint8": 1}
"""Bytes of one number, by the names of `PrecisionConfig`; 8-bit codes are an optimizer's own format."""
BLOCK_OF_8BIT = 256
"""Moments in 8 bits that share one scale."""
MIN_ELEMENTS_8BIT = 4096
"""Tensors of fewer elements keep their moments in the recipe's format, as in bitsandbytes."""


class OptimizerFields(Section):
    """Keys of all optimizers, and facts for plans."""

    # pydantic makes no field, and so no key of a recipe, of a class variable.
    engines: ClassVar[tuple[str, ...]] = ("jax", "torch")
    """Engines of this package that support it."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled decay, applied to matrices and not to norms."""
    clip_norm: float = Field(default=0.0, ge=0)
    """Gradients are scaled down to this global norm; 0 switches clipping off."""

    @abstractmethod
    def moment_shapes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> MomentShapes:
        """Shapes of the moments of one tensor of this size on one device, in the engines.

        ``in_layer``: whether it belongs to a layer or an adapter, not to the embedding, head or last norm.
        """

    def state_bytes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> int:
        """Bytes of the moments of one tensor; arguments as in `moment_shapes`."""
        shapes = self.moment_shapes(size, moments=moments, in_layer=in_layer)
        return sum(prod(shape) * BYTES_OF_FORMAT[number] for shape, number in shapes.values())


class AdamWFields(OptimizerFields):
    """Settings of AdamW, however its moments are stored."""

    # The defaults are the paper's and PyTorch's, whose weight decay is 0.01.
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the first moment."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the second moment."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the root of the second moment."""


class AdamWConfig(AdamWFields):
    """AdamW (Loshchilov and Hutter, 2019), decoupled weight decay on matrices only."""

    name: Literal["adamw"]
    """AdamW."""

    def moment_shapes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> MomentShapes:
        """Two moments of the tensor's shape."""
        # PyTorch's names, also in checkpoints: running means of the gradient and its square.
        return {slot: (tuple(size), moments) for slot in ("exp_avg", "exp_avg_sq")}


class AdamW8bitConfig(AdamWFields):
    """AdamW with moments in 8 bits, in blocks of 256 (Dettmers et al., 2022); engine `torch`, needs bitsandbytes."""

    name: Literal["adamw8bit"]
    """AdamW, moments in 8 bits."""
    engines = ("torch",)

    def moment_shapes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> MomentShapes:
        """One byte per moment and the largest value of each block in fp32; small tensors as in AdamW."""
        slots = ("exp_avg", "exp_avg_sq")
        if prod(size) < MIN_ELEMENTS_8BIT:
            return {slot: (tuple(size), moments) for slot in slots}
        codes: MomentShapes = {slot: (tuple(size), "uint8") for slot in slots}
        # Rounded up, because a partial last block has a scale too.
        return codes | {f"{slot}_absmax": ((-(-prod(size) // BLOCK_OF_8BIT),), "fp32") for slot in slots}


class MuonConfig(AdamWFields):
    """Muon (Jordan, 2024) for the matrices of the layers, AdamW for embeddings, norms and biases; engine `jax`."""

    name: Literal["muon"]
    """Momentum made orthogonal."""
    engines = ("jax",)
    # Momentum, Nesterov and five iterations are the defaults of Jordan's own code.
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the momentum (optax: `beta`)."""
    nesterov: bool = True
    """Nesterov's momentum."""
    ns_steps: int = Field(default=5, ge=1)
    """Newton-Schulz iterations."""
    adjust_lr: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """Factor on a matrix's update (PyTorch: `adjust_lr_fn`): `0.2 * max(out, in) ** 0.5`, with which AdamW's learning
    rates fit (Liu et al., 2025), or `original`, `max(1, out / in) ** 0.5`."""

    def moment_shapes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> MomentShapes:
        """One moment of a layer's matrix, two as in AdamW for all other tensors."""
        # Orthogonal momentum is for matrices; those outside the layers are tables of vectors.
        slots = ("momentum_buffer",) if in_layer and len(size) == 2 else ("exp_avg", "exp_avg_sq")
        return {slot: (tuple(size), moments) for slot in slots}


class AdafactorConfig(OptimizerFields):
    """Adafactor (Shazeer and Stern, 2018) over Hugging Face's 2-D matrices, temporaries bounded."""

    name: Literal["adafactor"]
    """Adafactor."""
    # This number and the two below it are the paper's.
    decay_power: float = Field(default=0.8, gt=0)
    """Second-moment decay is 1 - step ** -decay_power."""
    clip_threshold: float = Field(default=1.0, gt=0)
    """Root mean square above which an update is scaled down."""
    epsilon: float = Field(default=1e-30, gt=0)
    """Added to squared gradients."""

    def moment_shapes(self, size: Sequence[int], *, moments: Literal["fp32", "bf16"], in_layer: bool) -> MomentShapes:
        """A row and a column for a matrix, the whole shape for a vector or filters (three axes)."""
        if len(size) != 2:
            return {"exp_avg_sq": (tuple(size), moments)}
        return {"exp_avg_sq_row": ((size[0],), moments), "exp_avg_sq_col": ((size[1],), moments)}


OptimizerConfig = Annotated[AdamWConfig | AdamW8bitConfig | AdafactorConfig | MuonConfig, Field(discriminator="name")]
OPTIMIZERS: tuple[type[OptimizerFields], ...] = (AdamWConfig, AdamW8bitConfig, AdafactorConfig, MuonConfig)


class PrecisionConfig(Section):
    """Number formats of storage and computation."""

    parameters: Literal["fp32", "bf16"] = "fp32"
    """Format of stored weights."""
    compute: Literal["auto", "fp32", "bf16", "fp16"] = "fp32"
    """Format of matrix products and activations; with `fp16` activations are fp32 (engine `torch`, for cards without
    bf16 matrix units). `auto`: the 16 bits that the device has matrix units for; on a CPU bf16 if that is measured to
    be 1.15 times as fast as fp32 (only in runs of minutes), else fp32. Frozen weights are then stored in bf16, too."""
    moments: Literal["fp32", "bf16"] = "fp32"
    """Format of optimizer state."""
    # bf16 has 8 significant bits: rounded to the nearest, an update below 1/512 of a weight is lost.
    rounding: Literal["nearest", "stochastic", "master_fp32"] = "nearest"
    """Rounding of an update to bf16 weights; fp32 weights only allow `nearest`."""

    @property
    def activations(self) -> Literal["fp32", "bf16"]:
        """Format of what passes from layer to layer."""
        return "bf16" if self.compute == "bf16" else "fp32"

    @model_validator(mode="after")
    def _fp32_parameters_round_to_nearest(self) -> Self:
        if self.parameters == "fp32" and self.rounding != "nearest":
            raise refused(f"precision.rounding: {self.rounding} with fp32 parameters",
                          "nearest: an fp32 weight keeps the whole update", "precision.rounding=nearest")
        return self


class MemoryConfig(Section):
    """Memory settings: attention, recomputed activations (gradient checkpointing), chunked loss, storage of tensors."""

    # All of them compute the same attention.
    attention: Literal["auto", "plain", "chunked", "flash"] = "auto"
    """Attention implementation; `auto` takes the best one for the device."""
    remat: Literal["none", "dots", "layer"] = "none"
    """Which activations are recomputed in backward (PyTorch: gradient checkpointing): `dots` keeps the results of
    products with weights (engine `jax`), `layer` a layer's input only."""
    # Logits of a whole micro batch are often the largest array: rows x positions x vocabulary.
    loss_chunk: int = Field(default=0, ge=0)
    """Number of positions whose logits are computed at a time; 0: all of a micro batch."""
    optimizer_in_backward: bool = False
    """Each gradient is used and freed as soon as it is complete (engine `torch`); not with accumulation or clipping."""
    per_layer_embeddings: Literal["device", "host"] = "device"
    """Memory of the table of per-layer embeddings, in models that have one (Gemma 4 E2B and E4B): `host` keeps it in
    the host's memory, and only the rows of a batch's tokens are copied to the device (engine `torch`)."""
    cpu_optimizations: bool = True
    """Savings on a CPU (`jax`: the loss at loss positions; `torch`: completions in micro batches of similar length,
    equal beginnings computed once). `false`: none of them on a CPU. No effect on other devices."""


class MeshConfig(Section):
    """Number of devices that share parameters (`fsdp`) and matrices (`tp`), and of copies of them (`replicate`)."""

    fsdp: int | Literal["auto"] = "auto"
    """Devices over which rows and parameters are split; `auto`: one CPU, or all devices / (`replicate` x `tp`)."""
    tp: int = Field(default=1, ge=1)
    """Devices over which each matrix is split."""
    replicate: int = Field(default=1, ge=1)
    """Copies of the parameters (HSDP). Each is split over `fsdp` x `tp` devices and computes its own rows, and only
    gradients travel between copies. With several hosts and one copy per host, parameters are not gathered over the
    network."""


class CheckpointConfig(Section):
    """When checkpoints are saved, and how many are kept."""

    # A killed run repeats up to this many steps.
    every_steps: int = Field(default=500, ge=1)
    """Steps between checkpoints; the last step is always saved."""
    every_minutes: float = Field(default=0.0, ge=0)
    """Minutes between checkpoints, if that comes first; 0: by steps only."""
    keep_last: int = Field(default=2, ge=1)
    """Number of newest checkpoints to keep."""
    keep: Literal["last", "best"] = "last"
    """`best`: also keeps the checkpoint with the best `measure`, which is then exported, asked and evaluated."""
    measure: Literal["loss", "accuracy"] = "loss"
    """For `keep: best`: loss on `evaluation.traces`, or accuracy on `evaluation.items_during_training` items."""
    patience: int = Field(default=0, ge=0)
    """The run ends after this many checkpoints without a better `measure`; 0: it takes all steps."""
    sharded: bool = False
    """Each process writes what its devices hold into its own files, so no device holds a whole tensor for it. With
    several machines all of them must write to the run directory."""

    @property
    def scores_items(self) -> bool:
        """Whether items are answered and scored during training, to find the best checkpoint."""
        return self.keep == "best" and self.measure == "accuracy"

    @model_validator(mode="after")
    def _keys_belong_to_best(self, info: ValidationInfo) -> Self:
        given = written_keys(self, info, {"measure", "patience"}, name="checkpoint")
        if given and self.keep == "last":
            raise refused(f"{given} with checkpoint.keep: last", "checkpoint.keep=best, which these keys are for",
                          "checkpoint.keep=best")
        return self


Scorer = Literal["answer", "exact", "math"]
"""Scorers that come with this project."""


class EvaluationConfig(Section):
    """Measurements during and after training."""

    traces: str = "none"
    """Held-out traces for the evaluation loss, or `none`."""
    items: str = "none"
    """Questions that the trained model answers (also those of logged samples), or `none`."""
    every_steps: int = Field(default=250, ge=1)
    """Steps between two evaluations during training: loss, samples, and scores of held-out items."""
    samples: int = Field(default=2, ge=0)
    """Number of completions in the log at each evaluation."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest completion, in tokens."""
    # Separate from `batch.micro_batch`, because generation keeps no activations for a backward pass.
    batch_size: int = Field(default=64, ge=1)
    """Number of prompts per batch."""
    items_during_training: int = Field(default=64, ge=0)
    """With rollouts: number of held-out items, the first ones, to score every `every_steps` updates; 0: none."""
    base: bool = True
    """Whether to evaluate the untrained model too, once for all runs that start from it."""
    scorer: Scorer = "answer"
    """How answers are scored, after training and, with rollouts, during it (`items_during_training`): `answer`, `exact`
    (the same characters) or `math` (formulas by math-verify)."""

    @model_validator(mode="after")
    def _keys_belong_to_traces_or_items(self, info: ValidationInfo) -> Self:
        if self.items != "none":
            return self
        unused = {"samples", "max_new_tokens", "batch_size", "items_during_training", "base", "scorer"}
        situation, expected = "evaluation.items: none", "`evaluation.items`, which these keys are for"
        if self.traces == "none":
            unused |= {"every_steps"}
            situation = "neither evaluation.items nor evaluation.traces"
            expected = "`evaluation.items`; for `every_steps` alone, `evaluation.traces` is enough"
        if unused_keys := written_keys(self, info, unused, name="evaluation"):
            # An override replaces the whole section, so the proposal lists the remaining keys.
            remaining = self.model_dump(mode="json", include=self.model_fields_set - unused)
            without = yaml.safe_dump(remaining, default_flow_style=True, sort_keys=False, width=1000).strip()
            raise refused(f"{unused_keys} with {situation}", expected,
                          f"evaluation.items=eval, or without them: {shlex.quote(f'evaluation={without}')}")
        return self
