"""The seam: what the rest of the package may ask of an engine, and nothing else.

An engine runs one step; order of data, schedule, accumulation counts, metrics, checkpoint policy and stopping live
above it, once. An engine is found by name among the entry points of group ``workings.engines`` (`engines/registry.py`),
so another package can bring its own. ``State`` is opaque: only the engine that made it looks inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import TypeAdapter

from workings.config.method import FULL, FullConfig, LoraConfig, MethodConfig, QloraConfig
from workings.config.recipe import Recipe
from workings.config.training import MemoryConfig, MeshConfig, OptimizerConfig, PrecisionConfig
from workings.hardware.device import DeviceFacts, without_alias
from workings.models.batch import Batch
from workings.models.shape import ModelShape

State = Any
"""Parameters, optimizer state and step count, in whatever form the engine likes."""


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
    weights: Path | None = None
    """Directory of the frozen weights beside which `restore` puts adapters; None: random ones from ``seed``."""
    packed: bool = False
    """Whether a sequence may hold several rows (`data.packing`)."""

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
                   method=recipe.method, weights=weights, packed=recipe.data.packing != "none")

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for a child process that compiles or traces and for digests.

        ``weights`` is left out: neither a compiler nor a trace reads them.
        """
        return {"shape": asdict(self.shape), "device": self.device, "optimizer": self.optimizer.model_dump(),
                "precision": self.precision.model_dump(), "memory": self.memory.model_dump(),
                "mesh": self.mesh.model_dump(), "seed": self.seed, "method": self.method.model_dump(),
                "packed": self.packed}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EngineRequest":
        """The request that `to_json` wrote."""
        optimizer: OptimizerConfig = TypeAdapter(OptimizerConfig).validate_python(values["optimizer"])
        method: MethodConfig = TypeAdapter(MethodConfig).validate_python(values["method"])
        return cls(shape=ModelShape(**values["shape"]), device=values["device"], optimizer=optimizer,
                   precision=PrecisionConfig(**values["precision"]), memory=MemoryConfig(**values["memory"]),
                   mesh=MeshConfig(**values["mesh"]), seed=values["seed"], method=method, packed=values["packed"])


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one optimizer step reports. Floats are Python floats: reading them waits for the device."""

    loss: float
    """Mean negative log likelihood over the step's supervised tokens, in nats, before the update."""
    grad_norm: float
    """Global L2 norm of the gradient of that mean, before clipping."""
    share_of_weights_changed: float
    """Share of stored parameters whose bits the update changed (1.0: all of them)."""


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
    details: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """One engine, opened for one request on one set of devices."""

    name: str
    """The name it is registered under."""

    @classmethod
    def open(cls, request: EngineRequest) -> "Engine":
        """Find and open the devices. Raises `DeviceError` if what was asked for is absent or unusable."""
        ...

    def describe(self) -> DeviceFacts:
        """What it runs on: platform, device kind, count, memory limit, versions, mesh."""
        ...

    def dtypes(self) -> Mapping[str, str]:
        """Number formats really used: `parameters`, `compute`, `moments`, `gradients`, `accumulator`."""
        ...

    def init(self, seed: int) -> State:
        """A fresh state with random weights."""
        ...

    def load(self, weights: Path) -> State:
        """A fresh optimizer on weights from a directory in Hugging Face's format."""
        ...

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update on one batch. ``state`` is consumed: only the returned one may be used afterwards."""
        ...

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Loss of a batch (``A`` is 1), no update."""
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
class ReportingEngine(Protocol):
    """What an engine may offer beyond `Engine`: texts about its libraries and drivers for a run's record."""

    def environment_files(self) -> Mapping[str, str]:
        """Texts for people by file name, such as ``cuda_check.txt``; nothing in them names a person or a process."""
        ...


class Processes(Protocol):
    """Processes that a launcher started for one run, and the board on which they leave each other notes.

    The board is small, slow and always there, also while devices compute or are stuck: what is computed together does
    not pass through it.
    """

    index: int
    """Of this process, from 0."""
    count: int

    def put(self, key: str, value: bytes) -> None:
        """Leave a note, in place of one under the same key."""
        ...

    def peek(self, key: str) -> bytes | None:
        """A note, if it is there; from any thread."""
        ...

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A note as soon as it is there; None where it does not come in time. Raises where the board is gone."""
        ...

    def drop(self, key: str) -> None:
        """Take a note away that everybody has read."""
        ...

    def leave(self) -> None:
        """Part after everything is done."""
        ...


@runtime_checkable
class DistributedEngine(Engine, SamplingEngine, Protocol):
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
