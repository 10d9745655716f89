"""The seam: what the rest of the package may ask of an engine, and nothing else.

An engine runs one step; order of data, schedule, accumulation counts, metrics, checkpoint policy and stopping live
above it, once. An engine is found by name among the entry points of group ``workings.engines`` (`engines/registry.py`),
so another package can bring its own. ``State`` is opaque: only the engine that made it looks inside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import TypeAdapter

from workings.config.method import FULL, FrozenBits, FullConfig, LoraConfig, MethodConfig, QloraConfig
from workings.config.recipe import Recipe
from workings.config.training import MemoryConfig, MeshConfig, OptimizerConfig, PrecisionConfig
from workings.errors import RequestError, WorkingsError
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts, without_alias
from workings.models.batch import Batch, BatchShape
from workings.models.shape import ModelShape
from workings.objectives import registry as objectives
from workings.objectives.base import Objective
from workings.objectives.cross_entropy import CROSS_ENTROPY

ProgramName = Literal["step", "evaluation", "generation", "drawing", "log_probs", "teacher"]
"""``step``: one optimizer update. ``evaluation``: loss of a held-out batch. ``generation``: greedy answers to items.
``drawing``: sampled completions of a rollout. ``log_probs``: log probabilities of given tokens, such as those of these
completions. ``teacher``: the same under a teacher, which a second engine runs."""
GENERATION_PROGRAMS: tuple[ProgramName, ...] = ("generation", "drawing")
"""Programs that generate tokens (`GenerationShape`); the others take a batch (`BatchShape`)."""


class GenerationShape(NamedTuple):
    """Size of a program that generates tokens."""

    prompts: int
    prompt_tokens: int
    """Of the longest prompt."""
    new_tokens: int
    """The most of one completion."""


class MeshShape(NamedTuple):
    """How many devices each axis of the mesh has."""

    fsdp: int
    """Devices that share rows, and split parameters and optimizer state between them."""
    tp: int
    """Devices that share each row and split the products of a layer between them."""

    @property
    def devices(self) -> int:
        """Devices of the whole mesh."""
        return self.fsdp * self.tp


ProgramShape = BatchShape | GenerationShape
ProgramShapes = Mapping[ProgramName, ProgramShape]
"""Programs of a run, each with its largest shape."""
State = Any
"""Parameters, optimizer state and step count. ``Any``, because the engine is chosen by name at run time: a type
parameter would be unknown everywhere above this module."""


def program_shape(program: ProgramName, sizes: Sequence[int]) -> ProgramShape:
    """The shape of a program whose three sizes were written as a JSON list."""
    return GenerationShape(*sizes) if program in GENERATION_PROGRAMS else BatchShape(*sizes)


@dataclass(frozen=True, kw_only=True)
class EngineRequest:
    """Everything an engine needs to know before it touches a device."""

    shape: ModelShape
    device: Literal["auto", "cpu", "gpu", "tpu"]
    optimizer: OptimizerConfig
    precision: PrecisionConfig
    memory: MemoryConfig
    mesh: MeshConfig
    seed: int
    method: FullConfig | LoraConfig | QloraConfig = FULL
    frozen_bits: FrozenBits = "nf4"
    """What `qlora` stores frozen projections in; a recipe's own are NF4."""
    objective: Objective = CROSS_ENTROPY
    """What an update minimizes."""
    weights: Path | None = None
    """Directory of the frozen weights beside which `restore` puts adapters; None: random ones from ``seed``."""
    packed: bool = False
    """Whether a sequence may hold several rows (`data.packing`)."""
    completions_of_a_prompt: int = 1
    """How many an update draws of each prompt (`algorithm.group`), for plans: the prompt is read once for all of them.
    Who draws finds it in the prompts given."""
    split_frozen: bool = True
    """Copied from `PlanningEngine.splits_frozen` by planning, for its formulas; engines do not read it."""

    @classmethod
    def of(cls, recipe: Recipe, shape: ModelShape, *, device: str = "", mesh: MeshConfig | None = None,
           weights: Path | None = None) -> "EngineRequest":
        """What a recipe asks an engine for.

        Args:
            recipe: what is asked for.
            shape: of its model.
            device: where it is to run, if not where the recipe says.
            mesh: how devices are arranged, if not as the recipe says.
            weights: directory of the frozen weights that adapters belong on.
        """
        return cls(shape=shape, device=without_alias(device or recipe.device), optimizer=recipe.optimizer,
                   precision=recipe.precision, memory=recipe.memory, mesh=mesh or recipe.mesh, seed=recipe.seed,
                   method=recipe.method, weights=weights, packed=recipe.data.packing != "none",
                   objective=recipe.algorithm.objective, completions_of_a_prompt=recipe.completions_of_a_prompt)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for a child process that compiles or traces and for digests.

        ``weights`` and ``split_frozen`` are left out: neither a compiler nor a trace reads them.
        """
        return {"shape": asdict(self.shape), "device": self.device, "optimizer": self.optimizer.model_dump(),
                "precision": self.precision.model_dump(), "memory": self.memory.model_dump(),
                "mesh": self.mesh.model_dump(), "seed": self.seed, "method": self.method.model_dump(),
                "frozen_bits": self.frozen_bits, "packed": self.packed, "objective": objectives.to_json(self.objective),
                "completions_of_a_prompt": self.completions_of_a_prompt}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EngineRequest":
        """The request that `to_json` wrote."""
        optimizer: OptimizerConfig = TypeAdapter(OptimizerConfig).validate_python(values["optimizer"])
        method: MethodConfig = TypeAdapter(MethodConfig).validate_python(values["method"])
        return cls(shape=ModelShape(**values["shape"]), device=values["device"], optimizer=optimizer,
                   precision=PrecisionConfig(**values["precision"]), memory=MemoryConfig(**values["memory"]),
                   mesh=MeshConfig(**values["mesh"]), seed=values["seed"], method=method, packed=values["packed"],
                   frozen_bits=values["frozen_bits"], objective=objectives.from_json(values["objective"]),
                   completions_of_a_prompt=values["completions_of_a_prompt"])


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one optimizer step reports. Floats are Python floats: reading them waits for the device."""

    loss: float
    """The objective over `Batch.divisor`, before the update; of cross entropy: mean negative log likelihood over the
    step's supervised tokens, in nats."""
    grad_norm: float
    """Global L2 norm of its gradient, before clipping."""
    share_of_weights_changed: float
    """Share of stored parameters whose bits the update changed (1.0: all of them)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the objective says beside its value, by name, each the mean over what it counts."""
    log_probs: np.ndarray | None = field(default=None, compare=False)
    """``[A, B, S]`` float32 natural logarithms of the probabilities of the batch's targets before the update, as the
    step itself computed them; 0 where they are not supervised. None for cross entropy."""

    @classmethod
    def of(cls, numbers: Sequence[float], metrics: Sequence[str], log_probs: np.ndarray | None = None) -> "StepResult":
        """From loss, gradient norm and share of weights changed, then sum and count of each metric."""
        # Behind the first three numbers sums and counts take turns.
        pairs = zip(metrics, numbers[3::2], numbers[4::2], strict=True)
        return cls(loss=numbers[0], grad_norm=numbers[1], share_of_weights_changed=numbers[2],
                   metrics={name: total / count if count else 0.0 for name, total, count in pairs},
                   log_probs=log_probs)


def require_adapters(method: FullConfig | LoraConfig | QloraConfig) -> None:
    """Raise `RequestError` where there are no adapters that a model could be without."""
    if isinstance(method, FullConfig):
        raise RequestError("the model below its adapters, with method.name: full", "method lora or qlora",
                           "load(weights, trainable=False): a copy of the first weights without an optimizer")


def require_signals(objective: Objective, batch: Batch) -> None:
    """Raise `RequestError` where a batch lacks signals of an objective."""
    if missing := [name for name in objective.signals if name not in batch.signals]:
        raise RequestError(f"a batch with the signals {sorted(batch.signals)} for the objective {objective.name}",
                           f"also {', '.join(missing)}")


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """Evaluation loss of one batch, as a sum so that batches add up exactly."""

    loss_sum: float
    supervised_tokens: int


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One generated continuation: token ids without the prompt and without the stop token."""

    tokens: list[int]
    finish_reason: Literal["stop", "length"]
    stop_token: int | None = None
    """The token that ended it; None where it was cut off."""
    log_probs: list[float] = field(default_factory=list, compare=False)
    """Of drawn continuations: natural logarithm of the probability with which each of ``tokens``, and then the stop
    token, was drawn, at the temperature asked for. Empty for greedy ones. Their last bits depend on what else is in the
    batch, so two completions are equal whatever these are."""

    @classmethod
    def of(cls, written: Sequence[int], stop_ids: Sequence[int], log_probs: Sequence[float] = ()) -> "Completion":
        """What a model wrote up to its first stop token, or all of it."""
        for count, token in enumerate(written):
            if token in stop_ids:
                return cls(tokens=[*written[:count]], finish_reason="stop", stop_token=token,
                           log_probs=[*log_probs[:count + 1]])
        return cls(tokens=[*written], finish_reason="length", log_probs=[*log_probs[:len(written)]])


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peak memory per device so far, and who says so."""

    peak_bytes: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a compiler or tracer says about the very step that `Engine.step` runs, for one batch shape."""

    peak_bytes: int
    """Per device."""
    source: Literal["compiled", "traced", "estimated"]
    breakdown: Mapping[str, int]
    """Bytes per device by category (`arguments`, `outputs`, `temporaries`, `aliased`, …)."""
    versions: Mapping[str, str]
    """Versions of whatever gave the verdict."""
    refused: str = ""
    """The compiler's sentence where it refused the program for lack of memory: no device of this kind can run it."""
    limit_bytes: int = 0
    """Bytes of a device that the compiler named when it refused; 0 where it named none."""
    exact: Mapping[str, int] = field(default_factory=dict)
    """Bytes per device of the program's own arrays by part (`parameters`, `moments`, `batch`, …), where they are known
    from shapes and shardings."""
    heap: Mapping[str, int] = field(default_factory=dict)
    """Bytes per device of the program's heap by part, where the compiler wrote down which array lies where."""
    assumed: tuple[str, ...] = ()
    """Entries of ``breakdown`` that are a round figure for what no trace sees, such as a CUDA context."""
    tokens_per_device: tuple[int, ...] = ()
    """Shape of the token array that one device's program takes; empty where it is not known."""
    why_estimated: str = ""
    """Why neither a compiler nor a trace was asked, as a clause."""
    notes: tuple[str, ...] = ()
    """What a person should know of how this was found, a sentence each."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts that are shown or recorded; nothing above the engines decides by them."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Inspection":
        """The inspection whose `dataclasses.asdict` was written as JSON, where tuples are lists."""
        tuples = {name: tuple(values[name]) for name in ("assumed", "tokens_per_device", "notes") if name in values}
        # A list would compare unequal to the tuple that was written.
        return cls(**{**values, **tuples})

    def facts(self) -> dict[str, Any]:
        """``details`` and the fields that say something, under one level of keys, as records and answers have it."""
        own = {"refused": self.refused, "limit_bytes": self.limit_bytes, "exact": dict(self.exact),
               "heap": dict(self.heap), "assumed": list(self.assumed),
               "tokens_per_device": list(self.tokens_per_device), "why": self.why_estimated}
        return {**self.details, **{name: value for name, value in own.items() if value}}


Inspections = Mapping[ProgramName, Inspection]
"""What is known of each program of a run."""


class Engine(Protocol):
    """One engine, opened for one request on one set of devices."""

    name: str
    """The name it is registered under."""

    def describe(self) -> DeviceFacts:
        """What it runs on: platform, device kind, count, memory limit, versions, mesh."""
        ...

    def dtypes(self) -> Mapping[str, str]:
        """Number formats really used: `parameters`, `compute`, `moments`, `gradients`, `accumulator`."""
        ...

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A fresh state with random weights; if it is not ``trainable``, without the optimizer's memory."""
        ...

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A fresh optimizer on weights from a directory in Hugging Face's format; ``trainable`` as in `init`."""
        ...

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update on one batch. ``state`` is consumed: only the returned one may be used afterwards."""
        ...

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Negative log likelihood of a batch (``A`` is 1), whatever the objective; no update."""
        ...

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy continuations of token prompts, in the order given, batched with a key/value cache."""
        ...

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` (Hugging Face's names) and ``optimizer.safetensors`` into an existing folder."""
        ...

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote, bit for bit. Raises `RecordError` for a missing tensor or a wrong shape."""
        ...

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format into an existing directory."""
        ...

    def memory(self) -> Memory:
        """Peak memory so far, per device."""
        ...

    def inspect(self, batch: Batch) -> Inspection:
        """Compile or trace the very step for a batch of this shape, without running it."""
        ...

    def check_device(self) -> Mapping[str, Any]:
        """Run one small real kernel on every device and report what came out; raises `DeviceError` on failure."""
        ...


class EngineClass(Protocol):
    """What is registered under an engine's name: a class that has `open` as a class method."""

    name: str
    """The name it is registered under."""

    def open(self, request: EngineRequest) -> Engine:
        """Find and open the devices.

        Raises:
            DeviceError: what was asked for is absent or unusable.
            RequestError: a setting that this engine does not honour.
        """
        ...


@runtime_checkable
class LikelihoodEngine(Protocol):
    """What an engine may offer beyond `Engine`: how likely it finds given tokens."""

    def log_probs(self, state: State, batch: Batch) -> np.ndarray:
        """``[A, B, S]`` float32 natural logarithms of the probabilities of a batch's targets.

        0 where they are not supervised. Logits exist for as many positions at a time as in the loss.
        """
        ...


@runtime_checkable
class TeachingEngine(Protocol):
    """What an engine may offer beyond `Engine`: the tokens that it finds the most likely."""

    def most_likely(self, state: State, batch: Batch, count: int, below: int) -> tuple[np.ndarray, np.ndarray]:
        """The most likely tokens of each supervised position, the most likely one first, and how likely they are.

        Logits exist for as many positions at a time as in the loss.

        Args:
            state: is read, not consumed.
            batch: of which targets are not read.
            count: K, tokens of a position.
            below: the first id that is not looked at; at least ``count`` and at most the model's vocabulary.

        Returns:
            ``[A, B, S, K]`` int32, and float32 natural logarithms of their probabilities among all tokens of the model.
            0 where positions are not supervised.
        """
        ...


@runtime_checkable
class AdapterEngine(Protocol):
    """What an engine may offer beyond `Engine`: the model that its adapters stand beside, as a reference."""

    def without_adapters(self, state: State) -> State:
        """The model below the adapters, sharing its frozen weights with ``state``.

        It is ready for `log_probs`, not for `step`, nor for `save` and `export`. It lasts until the next `step`, which
        may consume the weights that the two share: whoever needs it again makes it again, of the state that the step
        returned.

        Raises:
            RequestError: method ``full``, which has no adapters. What is needed there is a frozen copy of the first
                weights, ``load(weights, trainable=False)``.
        """
        ...


@runtime_checkable
class AdapterReadingEngine(Protocol):
    """What an engine may offer beyond `Engine`: the adapters of a checkpoint, without an optimizer's state."""

    def with_adapters(self, state: State, directory: Path) -> State:
        """The same model with the adapters that `save` wrote into a checkpoint's directory; ``state`` is consumed.

        Raises:
            RequestError: method ``full``.
            RecordError: a file or tensor is missing, damaged, or of another shape.
        """
        ...


@runtime_checkable
class SamplingEngine(Protocol):
    """What an engine may offer beyond `Engine`: completions drawn at a temperature."""

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One drawn continuation per prompt, in the order given.

        ``seeds`` holds one number below 2**32 per prompt: a prompt's completion depends on its own seed, not on the
        prompts beside it in a batch (as far as the device computes rows independently).
        """
        ...


@runtime_checkable
class StreamingEngine(Protocol):
    """What an engine may offer beyond `Engine`: an answer of which each token is told as soon as it is there."""

    def stream(self, state: State, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> Completion:
        """The tokens that `generate` gives for one prompt; ``tell`` is called with each of them, in order."""
        ...


@runtime_checkable
class ComparableEngine(Protocol):
    """What an engine may offer beyond `Engine`: what a comparison of engines looks at and no run needs."""

    def logits(self, state: State, batch: Batch) -> np.ndarray:
        """``[B, S, V]`` float32 logits of a batch's first micro batch."""
        ...


@runtime_checkable
class ReportingEngine(Protocol):
    """What an engine may offer beyond `Engine`: texts about its libraries and drivers for a run's record."""

    def environment_files(self) -> Mapping[str, str]:
        """Texts for people by file name, such as ``cuda_check.txt``; nothing in them names a person or a process."""
        ...


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One thing that a request asks for and an engine does not do, with the three parts of a `RequestError`."""

    feature: str
    """What is asked for, in a few words (`mesh.tp above 1`)."""
    given: str
    expected: str
    try_next: str

    def error(self) -> RequestError:
        """The error of a request that asks for it all the same."""
        return RequestError(self.given, self.expected, self.try_next)


class NotInspected(WorkingsError):
    """Neither a compiler nor a trace answers about a program here; the message says why as a clause, or is empty."""


@runtime_checkable
class PlanningEngine(Protocol):
    """What an engine may offer beyond `Engine`: answers about devices that are not here, before anything is opened.

    A class has it by class methods, and is registered under its engine's name in the entry points of group
    ``workings.planning_engines``. Its module loads no framework, so that planning and `engine: auto` load none: whoever
    compiles or traces does it in a child process.
    """

    name: str
    """The name that its engine is registered under."""
    libraries: tuple[str, ...]
    """Modules that must be installed for the engine to run."""
    inspected_platforms: tuple[str, ...]
    """Platforms of the targets that `inspect_for` takes. On a CPU that is not among them the engine is opened and asked
    by `Engine.inspect`; other programs are estimated, and a TPU is refused."""
    splits_frozen: bool
    """Whether ``fsdp`` splits matrices in four bits and the table of per-layer embeddings too. Where it does not, every
    device has them whole."""

    def refusals(self, request: EngineRequest) -> Sequence[Refusal]:
        """What the engine does not do, of what is asked for; empty where it does all of it."""
        ...

    def inspect_for(self, request: EngineRequest, programs: ProgramShapes, target: Target) -> Inspections:
        """Compile or trace the engine's own programs for a target.

        Returns:
            An inspection of each program. Where the step itself is refused, the others may be left out: the answer is
            no already.

        Raises:
            RequestError: the engine does not do what is asked for, or its libraries are not installed.
            NotInspected: nothing here can say what the programs need on this target.
            WorkingsError: the compiler or the trace failed.
        """
        ...

    def inspection_key(self, target: Target) -> Mapping[str, Any]:
        """What decides `inspect_for` beside request and programs, as JSON values: answers are kept under its digest.

        Namely the target as the compiler is told of it, versions, flags, and a digest of the engine's own source.
        """
        ...

    def usable_memory(self, target: Target) -> tuple[int, str]:
        """Bytes of one device of the target that a run with this engine may use, and who says so. Not for a CPU."""
        ...


class Processes(Protocol):
    """Processes that a launcher started for one run, and the key-value store that they share.

    The store is small, slow and always there, also while devices compute or are stuck: what is computed together does
    not pass through it.
    """

    index: int
    """Of this process, from 0."""
    count: int

    def set(self, key: str, value: bytes) -> None:
        """Store a value, in place of an earlier one."""
        ...

    def get(self, key: str) -> bytes | None:
        """The value of a key, None where there is none; from any thread."""
        ...

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A value as soon as it is there; None where it does not come in time. Raises where the store is gone."""
        ...

    def delete(self, key: str) -> None:
        """Remove a value that every process has read."""
        ...

    def shutdown(self) -> None:
        """Leave the group of processes after everything is done."""
        ...


@runtime_checkable
class JoiningEngine(Protocol):
    """What an engine's class has that meets other processes; of a `DistributedEngine` it is a class method."""

    def join(self, device: str) -> Processes | None:
        """Meet the others before a device is touched; None where no launcher started several processes.

        Raises `RequestError` where a launcher left its variables and they do not go together.
        """
        ...


@runtime_checkable
class DistributedEngine(Engine, SamplingEngine, LikelihoodEngine, Protocol):
    """What an engine may offer beyond `Engine`: a step that several processes take together, each with its share.

    Every process must then make the same calls with the same arguments in the same order, but for questions about
    itself (`describe`, `dtypes`, `memory`, `inspect`, `check_device`). Process 0 alone writes.
    """

    @classmethod
    def join(cls, device: str) -> Processes | None:
        """Meet the others before a device is touched; None where no launcher started several processes.

        Raises `RequestError` where a launcher left its variables and they do not go together.
        """
        ...
