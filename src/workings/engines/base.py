"""The interface between engines and the rest of the package.

An engine opens devices for one request, and computes steps, losses and completions with an opaque state:

    engine = find_engine("jax").engine.open(EngineRequest.of(recipe, shape))
    state = engine.init(seed=0)
    state, result = engine.step(state, batch, learning_rate=1e-5)

Order of data, schedule, metrics, checkpoint policy and stopping are implemented once for all engines, above them.
Another package can register its own engine (`engines/registry.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from workings.config.method import FULL, FullConfig, LoraConfig, MethodConfig, QloraConfig
from workings.config.recipe import Recipe
from workings.config.training import AdamWConfig, MemoryConfig, MeshConfig, OptimizerConfig, PrecisionConfig
from workings.errors import RequestError, WorkingsError
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts, without_alias
from workings.models.batch import Batch, BatchShape
from workings.models.shape import ModelShape
from workings.objectives import registry as objectives
from workings.objectives.base import CROSS_ENTROPY, Objective

ProgramName = Literal["step", "evaluation", "generation", "drawing", "log_probs", "teacher"]
"""``step``: one optimizer update. ``evaluation``: loss of a held-out batch. ``generation``: greedy answers to items.
``drawing``: sampled completions of a rollout. ``log_probs``: log probabilities of given tokens, such as completions.
``teacher``: log probabilities by a teacher, which a second engine runs."""


class GenerationShape(NamedTuple):
    """Size of a program that generates tokens."""

    prompts: int
    prompt_tokens: int
    """Tokens of the longest prompt."""
    new_tokens: int
    """The most new tokens of one completion."""


class MeshShape(NamedTuple):
    """Number of devices along each axis of the mesh."""

    fsdp: int
    """Devices that split rows, parameters and optimizer state between them."""
    tp: int
    """Devices that have the same rows and split the products of a layer between them."""
    replicate: int = 1
    """Copies of parameters and optimizer state, each on ``fsdp`` x ``tp`` devices with its own rows."""

    @classmethod
    def of(cls, axes: Mapping[str, int]) -> "MeshShape":
        """The mesh with the axes of `DeviceFacts.mesh`."""
        return cls(axes["fsdp"], axes["tp"], axes.get("replicate", 1))

    @property
    def devices(self) -> int:
        """Devices of the whole mesh."""
        return self.replicate * self.fsdp * self.tp

    @property
    def row_devices(self) -> int:
        """Devices over which rows are split."""
        return self.replicate * self.fsdp

    @property
    def of_a_copy(self) -> tuple[int, int]:
        """``fsdp`` and ``tp``: the devices of one copy of the parameters."""
        return self.fsdp, self.tp

    def share_of_a_copy(self, size: "ProgramShape") -> "ProgramShape":
        """The rows or prompts of a program that one copy computes."""
        if isinstance(size, GenerationShape):
            return size._replace(prompts=-(-size.prompts // self.replicate))
        return size._replace(rows=size.rows // self.replicate)

    def axes(self) -> dict[str, int]:
        """Sizes by axis; without ``replicate`` if there is one copy."""
        copies = {"replicate": self.replicate} if self.replicate > 1 else {}
        return {**copies, "fsdp": self.fsdp, "tp": self.tp}

    def sizes(self) -> str:
        """Axes and sizes, such as ``fsdp=4 tp=2``."""
        return " ".join(f"{axis}={size}" for axis, size in self.axes().items())

    def text(self) -> str:
        """The keys of the recipe and their values, such as ``mesh.fsdp x mesh.tp = 4 x 2``."""
        axes = self.axes()
        return f"{' x '.join(f'mesh.{axis}' for axis in axes)} = {' x '.join(map(str, axes.values()))}"


ProgramShape = BatchShape | GenerationShape
ProgramShapes = Mapping[ProgramName, ProgramShape]
"""Programs of a run, each with its largest shape."""
State = Any
"""Parameters, optimizer state and step count; only the engine that made it reads its contents."""


def program_shape(program: ProgramName, sizes: Sequence[int]) -> ProgramShape:
    """The shape of a program from its three sizes, which are a list in JSON."""
    return GenerationShape(*sizes) if program in ("generation", "drawing") else BatchShape(*sizes)


@dataclass(frozen=True, kw_only=True)
class EngineRequest:
    """Everything that an engine needs to know before it opens a device."""

    shape: ModelShape
    device: Literal["auto", "cpu", "gpu", "tpu"]
    precision: PrecisionConfig
    optimizer: OptimizerConfig = field(default_factory=partial(AdamWConfig, name="adamw"))
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    seed: int = 0
    method: MethodConfig = FULL
    objective: Annotated[Objective, PlainValidator(objectives.from_json),
                         PlainSerializer(objectives.to_json)] = CROSS_ENTROPY
    """The function that an update minimizes."""
    weights: Path | None = None
    """Directory of the frozen weights that adapters belong to; None: random weights from ``seed``."""
    packed: bool = False
    """Whether a sequence may hold several rows (`data.packing`)."""
    completions_of_a_prompt: int = 1
    """Completions that are sampled of each prompt (`algorithm.group`); only plans read it."""
    split_frozen: bool = True
    """`PlanningEngine.splits_frozen`; only the formulas of plans read it."""

    @classmethod
    def of(cls, recipe: Recipe, shape: ModelShape, *, device: str = "", mesh: MeshConfig | None = None,
           weights: Path | None = None) -> "EngineRequest":
        """The request of a recipe; ``device`` and ``mesh`` replace those of the recipe."""
        return cls(shape=shape, device=without_alias(device or recipe.device), optimizer=recipe.optimizer,
                   precision=recipe.precision, memory=recipe.memory, mesh=mesh or recipe.mesh, seed=recipe.seed,
                   method=recipe.method, weights=weights, packed=recipe.data.packing != "none",
                   objective=recipe.algorithm.objective,
                   completions_of_a_prompt=recipe.algorithm.completions_of_a_prompt)

    def to_json(self) -> dict[str, Any]:
        """JSON values for digests and for child processes, without ``weights`` and ``split_frozen``."""
        values: dict[str, Any] = _REQUEST.dump_python(self, exclude={"weights", "split_frozen"})
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EngineRequest":
        """The request that `to_json` wrote."""
        return _REQUEST.validate_python(values)


_REQUEST = TypeAdapter(EngineRequest)


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Results of one optimizer step."""

    loss: float
    """The objective divided by `Batch.divisor`, before the update. For cross entropy: mean loss of a token, in nats."""
    grad_norm: float
    """Global L2 norm of the gradient, before clipping."""
    share_of_weights_changed: float
    """Share of stored parameters whose bits the update changed, from 0 to 1."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The objective's metrics by name, each a mean."""
    log_probs: np.ndarray | None = field(default=None, compare=False)
    """``[A, B, S]`` log probabilities of the targets before the update (`LikelihoodEngine`); None for cross entropy."""

    @classmethod
    def of(cls, numbers: Sequence[float], metrics: Sequence[str], log_probs: np.ndarray | None = None) -> "StepResult":
        """The result from ``[loss, gradient norm, share of weights changed, sum, count, …]``, two for each metric."""
        pairs = zip(metrics, numbers[3::2], numbers[4::2], strict=True)
        return cls(loss=numbers[0], grad_norm=numbers[1], share_of_weights_changed=numbers[2],
                   metrics={name: total / count if count else 0.0 for name, total, count in pairs},
                   log_probs=log_probs)


def require_adapters(method: FullConfig | LoraConfig | QloraConfig) -> None:
    """Raise `RequestError` for a method without adapters."""
    if isinstance(method, FullConfig):
        raise RequestError("method.name: full has no model below its adapters", "method lora or qlora",
                           "load(weights, trainable=False): a copy of the first weights without an optimizer")


def require_signals(objective: Objective, batch: Batch) -> None:
    """Raise `RequestError` for a batch without the signals that an objective reads."""
    if missing := [name for name in objective.signals if name not in batch.signals]:
        raise RequestError(f"the objective {objective.name} needs more signals than {sorted(batch.signals)}",
                           f"also {', '.join(missing)}")


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """Evaluation loss of one batch, as a sum."""

    loss_sum: float
    supervised_tokens: int


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A generated completion: token ids without the prompt and without the stop token."""

    tokens: list[int]
    finish_reason: Literal["stop", "length"]
    stop_token: int | None = None
    """The stop token; None for a completion that reached its length limit."""
    log_probs: list[float] = field(default_factory=list, compare=False)
    """Natural log probabilities, at the sampling temperature, of ``tokens`` and then of the stop token; empty for
    greedy completions. Comparisons ignore them, because their last bits depend on the rest of the batch."""

    @classmethod
    def of(cls, written: Sequence[int], stop_ids: Sequence[int], log_probs: Sequence[float] = ()) -> "Completion":
        """The completion from generated tokens, which ends at the first stop token."""
        for count, token in enumerate(written):
            if token in stop_ids:
                return cls(tokens=[*written[:count]], finish_reason="stop", stop_token=token,
                           log_probs=[*log_probs[:count + 1]])
        return cls(tokens=[*written], finish_reason="length", log_probs=[*log_probs[:len(written)]])


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peak memory per device so far, and the source of the number."""

    peak_bytes: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Memory per device of one program of a run for one shape, by a compiler, a trace or a formula."""

    peak_bytes: int
    source: Literal["compiled", "traced", "estimated"]
    breakdown: Mapping[str, int]
    """Bytes by category (`arguments`, `outputs`, `temporaries`, `aliased`, …)."""
    versions: Mapping[str, str]
    """Of the compiler, tracer or formula."""
    refused: str = ""
    """The compiler's message if it refused the program for lack of memory: no device of this kind can run it."""
    limit_bytes: int = 0
    """Memory of a device, as the compiler's refusal states it; 0 if it does not."""
    exact: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the program's arguments by part (`parameters`, `moments`, `batch`, …); empty if these are not known."""
    assumed: tuple[str, ...] = ()
    """Entries of ``breakdown`` that are round figures for memory that no trace can see, such as a CUDA context."""
    why_estimated: str = ""
    """Why neither a compiler nor a trace was used, as a clause."""
    notes: tuple[str, ...] = ()
    """Remarks about the source of the numbers, a sentence each."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Duration of the work: `lower`, `compile` and `compile_cpu` (processor time), or `trace`."""
    peak_operator: str = ""
    """The operator at which a trace reaches its peak; empty without a trace."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Inspection":
        """The inspection whose `dataclasses.asdict` was written as JSON, where tuples are lists."""
        tuples = {name: tuple(values[name]) for name in ("assumed", "notes") if name in values}
        return cls(**{**values, **tuples})


Inspections = Mapping[ProgramName, Inspection]


class Engine(Protocol):
    """One engine, opened for one request on one set of devices."""

    name: str
    """Name of its entry point."""

    def describe(self) -> DeviceFacts:
        """Its devices: platform, kind, count, memory limit, versions, mesh."""

    def dtypes(self) -> Mapping[str, str]:
        """Number formats in use: `parameters`, `compute`, `moments`, `gradients`, `accumulator`."""

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A new state with random weights; if it is not ``trainable``, without the optimizer's state."""

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A new state with weights from a directory in Hugging Face's format; ``trainable`` as in `init`."""

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update with one batch. ``state`` is consumed: only the returned state may be used after the call."""

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Negative log likelihood of a batch (``A`` is 1), regardless of the objective, without an update."""

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy completions of token prompts, in the order of the prompts."""

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` (Hugging Face's names) and ``optimizer.safetensors`` into an existing folder."""

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote, bit for bit. Raises `RecordError` for a missing tensor or a wrong shape."""

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format into an existing directory."""

    def memory(self) -> Memory:
        """Peak memory so far, per device."""

    def inspect(self, batch: Batch) -> Inspection:
        """Compile or trace the program of `step` for a batch of this shape, without running it."""

    def check_device(self) -> Mapping[str, Any]:
        """Run one small kernel on every device and return its results; raises `DeviceError` on failure."""


class EngineClass(Protocol):
    """Class that an entry point names; `open` is a class method."""

    name: str
    """Name of its entry point."""

    def open(self, request: EngineRequest) -> Engine:
        """Open the devices. Raises `DeviceError` if they are absent or unusable, `RequestError` for a wrong setting."""


@runtime_checkable
class ShardSavingEngine(Protocol):
    """Optional: checkpoints to which each process writes the parts on its own devices (`models.shards`)."""

    def save_shards(self, state: State, directory: Path) -> None:
        """Write this process's shards of what `save` writes, without waiting for others. `restore` reads them."""


@runtime_checkable
class LikelihoodEngine(Protocol):
    """Optional: log probabilities of given tokens."""

    def log_probs(self, state: State, batch: Batch) -> np.ndarray:
        """``[A, B, S]`` float32 natural log probabilities of a batch's targets; 0 where they are not supervised."""


@runtime_checkable
class TeachingEngine(Protocol):
    """Optional: the most likely tokens of each position, for distillation."""

    def most_likely(self, state: State, batch: Batch, count: int, below: int) -> tuple[np.ndarray, np.ndarray]:
        """The K = ``count`` most likely tokens of each supervised position, and their natural log probabilities.

        Both are ``[A, B, S, K]`` in descending order of probability (int32, float32), and 0 at other positions. Only
        tokens with ids under ``below`` are chosen; probabilities are among all tokens. Targets are not read.
        """


@runtime_checkable
class AdapterEngine(Protocol):
    """Optional: the model without its adapters (a reference), or with those of a checkpoint (a teacher)."""

    def without_adapters(self, state: State) -> State:
        """The model without its adapters, for `log_probs`. It shares its frozen weights with ``state``.

        The next `step` may consume these weights; then call this again. Raises `RequestError` for method ``full``.
        """

    def with_adapters(self, state: State, directory: Path) -> State:
        """The same model with the adapters of a checkpoint's directory; ``state`` is consumed.

        Raises `RequestError` for method ``full``, `RecordError` for what is missing, damaged, or of another shape.
        """


@runtime_checkable
class Sampler(Protocol):
    """Optional: samples completions with the weights that an engine trains. ``state`` is not consumed."""

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One sampled completion per prompt, in the order of the prompts, with the log probability of each token.

        ``seeds``: a number below 2**32 for each prompt; a completion depends only on its own prompt and seed.
        """


@runtime_checkable
class TaggedSampler(Sampler, Protocol):
    """A sampler that is another program, to which the engine's weights are copied."""

    @property
    def tag(self) -> dict[str, str]:
        """Facts about the last completions for the record: the program, its version, and its weights."""

    def load(self, state: State) -> None:
        """Copy the weights of a state to the program; `sample` does so itself, unless its state is None."""


@runtime_checkable
class StreamingEngine(Protocol):
    """Optional: a completion whose tokens arrive one by one."""

    def stream(self, state: State, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> Completion:
        """The completion that `generate` returns for one prompt; ``tell`` is called with each token."""


@runtime_checkable
class ComparableEngine(Protocol):
    """Optional: values that only comparisons of engines need."""

    def logits(self, state: State, batch: Batch) -> np.ndarray:
        """``[B, S, V]`` float32 logits of a batch's first micro batch."""


@runtime_checkable
class ReportingEngine(Protocol):
    """Optional: texts about its libraries and drivers for a run's record."""

    def environment_files(self) -> Mapping[str, str]:
        """Texts by file name, such as ``nvidia_smi.txt``, without names of people or processes."""


class Refusal(RequestError):
    """A request asks for a feature that an engine does not have."""

    def __init__(self, feature: str, given: str, expected: str, try_next: str) -> None:
        """``feature``: in a few words, such as ``mesh.tp above 1``."""
        super().__init__(given, expected, try_next)
        self.feature = feature


class NotInspected(WorkingsError):
    """No compiler and no trace can inspect a program here. The message is the reason as a clause; it may be empty."""


@runtime_checkable
class PlanningEngine(Protocol):
    """Optional: plans for devices that are not here.

    A class with these class methods is registered under its engine's name in the entry points of group
    ``workings.planning_engines``. Its module loads no framework: programs are compiled or traced in a child process.

    If a class has ``process_per_device = True``, each device answers 128 prompts at a time, else all together do.
    """

    name: str
    """Name of the engine's entry point."""
    libraries: tuple[str, ...]
    """Modules that must be installed for the engine to run."""
    inspected_platforms: tuple[str, ...]
    """Platforms of the targets that `inspect_for` accepts. If `cpu` is missing, the engine is opened on a CPU and
    `Engine.inspect` is called. If `gpu` is missing, GPUs are estimated; if `tpu` is missing, TPUs are refused."""
    splits_frozen: bool
    """Whether ``fsdp`` also splits 4-bit matrices and per-layer embeddings; if not, every device has them whole."""

    def refusals(self, request: EngineRequest) -> Sequence[Refusal]:
        """Features of the request that the engine does not have; empty if it has all."""

    def inspect_for(self, request: EngineRequest, programs: ProgramShapes, target: Target) -> Inspections:
        """An inspection of each program, compiled or traced for a target; only the step's if the step is refused.

        Raises:
            RequestError: the engine lacks a feature of the request, or its libraries are not installed.
            NotInspected: no compiler and no trace can inspect the programs for this target here.
            WorkingsError: the compiler or the trace failed.
        """

    def inspection_key(self, target: Target) -> Mapping[str, Any]:
        """Facts that also decide `inspect_for`, in JSON values: target, versions, flags, digest of the source."""

    def usable_memory(self, target: Target) -> tuple[int, str]:
        """Bytes of one device of the target (GPU or TPU) that this engine may use, and the source of the number."""


class Processes(Protocol):
    """Processes that a launcher started for one run. They have a broadcast, and a store that works at any time."""

    index: int
    """Number of this process, from 0."""
    count: int
    timeout: float
    """Seconds after which a collective operation fails if a process is gone or late (`PEER_TIMEOUT`)."""

    def set(self, key: str, value: bytes) -> None:
        """Store a value, which replaces an earlier one. Raises `RuntimeError` if the store cannot be reached."""

    def wait(self, key: str, seconds: float) -> bytes | None:
        """Wait for a value; None after the time limit. Raises `RuntimeError` as `set`."""

    def broadcast(self, value: Any) -> Any:
        """Process 0's value, which can be pickled. All processes must make collective calls in the same order."""

    def shutdown(self, *, stopped: bool) -> None:
        """Leave the group of processes at the end of the run; ``stopped``: whether the program ends, too."""


@runtime_checkable
class JoiningEngine(Protocol):
    """Optional: several processes. An engine's class has `join` as a class method."""

    def join(self) -> Processes | None:
        """Connect to other processes of the run, before a device is opened. Raises `RequestError` if it cannot."""


@runtime_checkable
class DistributedEngine(Engine, Sampler, LikelihoodEngine, AdapterEngine, JoiningEngine, Protocol):
    """Optional: steps that several processes take together, each with its share of the rows.

    Every process makes the same calls with the same arguments in the same order, except for calls about itself
    (`describe`, `dtypes`, `memory`, `inspect`, `check_device`). Only process 0 writes, except in `save_shards`.
    """
