"""A unigram model in NumPy, trained by gradient descent: a whole engine whose runs take no time.

It is real enough to learn: logits over the vocabulary, the exact gradient, momentum as optimizer state. It does that
for any optimizer and shape of the request; only the vocabulary's size counts. Settings that it would not honour,
such as those of the optimizer, are refused. Arithmetic is float64 on one core, so equal requests give equal bits.

Variables in the environment make it misbehave, for tests of what is done then. Steps count from 1; a value that is no
number raises `ValueError`.

| variable | what it does | default |
|---|---|---|
| `UNIGRAM_SECONDS` | each step waits this long first, in seconds | 0 |
| `UNIGRAM_NAN_AT` | the loss of this step is reported as not a number | no step |
| `UNIGRAM_HUNGRY_AT` | this step asks the system for 2**60 bytes, which raises `MemoryError` | no step |
| `UNIGRAM_LIMIT_BYTES` | the device says that it has this many bytes | 2**30 |

Shape suffixes: A micro batches, B rows, S positions (`workings.models.batch`), V vocabulary.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from workings.config.section import changed_keys
from workings.engines.base import Completion, EngineRequest, Inspection, LossSum, Memory, StepResult
from workings.errors import DeviceError, RecordError, RequestError
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch

MOMENTUM = 0.9
"""Share of the last step's velocity that the next one keeps."""

UnigramState = dict[str, np.ndarray]
"""``logits`` and ``velocity``, float64 [V], and ``step``, int64 []: the updates so far."""

_MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"
_NEVER = "-1"


class UnigramEngine:
    """`workings.engines.base.Engine`: a distribution over the vocabulary that no context changes."""

    name = "unigram"

    def __init__(self, request: EngineRequest) -> None:
        self.request = request

    @classmethod
    def open(cls, request: EngineRequest) -> "UnigramEngine":
        """An engine for this request. Raises `DeviceError` or `RequestError` for what it does not do."""
        if request.device not in ("auto", "cpu"):
            raise DeviceError(f"device: {request.device}", "a CPU: the unigram engine computes in NumPy", "device=cpu")
        _refuse_settings(request)
        return cls(request)

    def describe(self) -> DeviceFacts:
        """One core, and as much memory as ``UNIGRAM_LIMIT_BYTES`` says."""
        limit = int(os.environ.get("UNIGRAM_LIMIT_BYTES", str(2**30)))
        return DeviceFacts(platform="cpu", kind="one core", count=1, memory_limit_bytes=limit,
                           memory_limit_source="test", mesh={"fsdp": 1, "tp": 1}, versions={"numpy": np.__version__},
                           reason="asked for" if self.request.device == "cpu" else "there is no other device")

    def dtypes(self) -> Mapping[str, str]:
        """Everything is float64."""
        return {"parameters": "float64", "compute": "float64", "moments": "float64"}

    def init(self, seed: int, *, trainable: bool = True) -> UnigramState:
        """Small normal logits, the same for equal seeds."""
        logits_v = np.random.default_rng(seed).normal(size=self.request.shape.vocab_size) * 0.01
        moments = {"velocity": np.zeros_like(logits_v)} if trainable else {}
        return {"logits": logits_v, "step": np.zeros((), np.int64)} | moments

    def load(self, weights: Path, *, trainable: bool = True) -> UnigramState:
        """Logits from ``model.safetensors`` with a fresh optimizer. Raises `RecordError` as `restore`."""
        return self.init(0, trainable=trainable) | self._read(weights / _MODEL, "logits")

    def step(self, state: UnigramState, batch: Batch, learning_rate: float) -> tuple[UnigramState, StepResult]:
        """One update by the gradient of the mean loss in nats. Raises `MemoryError` at step ``UNIGRAM_HUNGRY_AT``."""
        time.sleep(float(os.environ.get("UNIGRAM_SECONDS", "0")))
        step = np.asarray(state["step"] + 1)
        if int(step) == int(os.environ.get("UNIGRAM_HUNGRY_AT", _NEVER)):
            np.empty(2**60, np.uint8)
        total, counts_v, probabilities_v = _loss(state["logits"], batch)
        gradient_v = probabilities_v - counts_v / counts_v.sum()
        velocity_v = MOMENTUM * state["velocity"] + gradient_v
        logits_v = state["logits"] - learning_rate * velocity_v
        loss = total / float(counts_v.sum())
        if int(step) == int(os.environ.get("UNIGRAM_NAN_AT", _NEVER)):
            loss = float("nan")
        return ({"logits": logits_v, "velocity": velocity_v, "step": step},
                StepResult(loss=loss, grad_norm=float(np.linalg.norm(gradient_v)),
                           share_of_weights_changed=float(np.mean(logits_v != state["logits"]))))

    def evaluate(self, state: UnigramState, batch: Batch) -> LossSum:
        """Summed loss of a batch, in nats, and the tokens that it counts."""
        return LossSum(loss_sum=_loss(state["logits"], batch)[0], supervised_tokens=batch.supervised_tokens)

    def generate(self, state: UnigramState, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """The likeliest token again and again; nothing where that is a stop token."""
        best = int(np.argmax(state["logits"]))
        if best in stop_ids:
            return [Completion(tokens=[], finish_reason="stop") for _ in prompts]
        return [Completion(tokens=[best] * max_new_tokens, finish_reason="length") for _ in prompts]

    def stream(self, state: UnigramState, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> Completion:
        """The same for one prompt, told token by token."""
        completion = self.generate(state, [prompt], max_new_tokens=max_new_tokens, stop_ids=stop_ids)[0]
        for token in completion.tokens:
            tell(token)
        return completion

    def save(self, state: UnigramState, directory: Path) -> None:
        """Write ``model.safetensors`` and ``optimizer.safetensors`` into an existing folder."""
        save_file({"logits": state["logits"]}, directory / _MODEL)
        save_file({"velocity": state["velocity"], "step": state["step"]}, directory / _OPTIMIZER)

    def restore(self, directory: Path) -> UnigramState:
        """The state that `save` wrote, bit for bit. Raises `RecordError` for damaged files, or another shape."""
        return self._read(directory / _MODEL, "logits") | self._read(directory / _OPTIMIZER, "velocity", "step")

    def export(self, state: UnigramState, directory: Path) -> None:
        """The logits as ``model.safetensors``; there is no ``config.json``, for transformers has no such model."""
        save_file({"logits": state["logits"]}, directory / _MODEL)

    def memory(self) -> Memory:
        """Bytes of logits, velocity and gradient."""
        return Memory(peak_bytes=3 * self._vector_bytes, source="counted")

    def inspect(self, batch: Batch) -> Inspection:
        """The bytes that `memory` will say, regardless of the batch."""
        return Inspection(peak_bytes=3 * self._vector_bytes, source="estimated",
                          breakdown={"state": 2 * self._vector_bytes}, versions={"numpy": np.__version__})

    def check_device(self) -> Mapping[str, Any]:
        """A product of two small matrices."""
        product = np.arange(4.0).reshape(2, 2) @ np.ones((2, 1))
        return {"kernel": "2 x 2 matrix product", "result": product.ravel().tolist()}

    @property
    def _vector_bytes(self) -> int:
        return 8 * self.request.shape.vocab_size

    def _read(self, file: Path, *names: str) -> UnigramState:
        try:
            tensors = load_file(file)
        except (FileNotFoundError, SafetensorError) as error:
            raise RecordError(f"{file}: {error}") from error
        for name in names:
            shape = () if name == "step" else (self.request.shape.vocab_size,)
            if name not in tensors:
                raise RecordError(f"{file} has no tensor {name}")
            if tensors[name].shape != shape:
                raise RecordError(f"{file}: {name} has shape {tensors[name].shape}, this run needs {shape}")
        return {name: tensors[name] for name in names}


def _refuse_settings(request: EngineRequest) -> None:
    """Every setting that would decide nothing here, named in one `RequestError`."""
    changed = changed_keys({"optimizer": request.optimizer, "precision": request.precision, "memory": request.memory})
    changed.pop("memory.cpu_optimizations", None)  # this engine has none, which both values allow
    if request.method.name != "full":
        changed["method.name"] = request.method.name
    if request.mesh.tp > 1 or request.mesh.fsdp not in ("auto", 1):
        changed |= {"mesh.fsdp": request.mesh.fsdp, "mesh.tp": request.mesh.tp}
    if changed:
        raise RequestError(", ".join(f"{key}: {value}" for key, value in changed.items()) + " with engine unigram",
                           "the defaults: this engine has one update rule, in float64 on one core",
                           "leave them out, or engine=jax")


def _loss(logits_v: np.ndarray, batch: Batch) -> tuple[float, np.ndarray, np.ndarray]:
    """Summed loss in nats, how often each token counts as a target [V], and the model's probabilities [V]."""
    log_probabilities_v = logits_v - np.logaddexp.reduce(logits_v)
    counts_v = np.bincount(batch.targets.ravel(), weights=batch.loss_mask.ravel().astype(np.float64),
                           minlength=len(logits_v))
    return float(-(counts_v @ log_probabilities_v)), counts_v, np.exp(log_probabilities_v)


if TYPE_CHECKING:
    from workings.engines.base import EngineClass

    _ENGINE: EngineClass = UnigramEngine  # the type checker compares every method with the protocol's
