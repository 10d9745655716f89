"""The PyTorch engine: a thin class around functions. It opens the device, builds models, moves batches and counts."""

import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from workings.engines.base import Completion, EngineRequest, Inspection, LossSum, Memory, StepResult
from workings.engines.torch import checkpoint, inspect
from workings.engines.torch.backward_optimizer import refuse_conflicts
from workings.engines.torch.device import (
    Device,
    check_kernels,
    device_name,
    find_device,
    library_versions,
    memory_limit,
    slow_formats,
)
from workings.engines.torch.environment import environment_files
from workings.engines.torch.generate import Pick, answer, drawn, greedy, order
from workings.engines.torch.model import build_model, fill_random
from workings.engines.torch.spec import build_spec, dtype_name
from workings.engines.torch.step import State, make_state, micro_batch_loss, run_step, to_rows
from workings.errors import RequestError
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch


class TorchEngine:
    """`workings.engines.base.Engine` on PyTorch. Open it with `TorchEngine.open`."""

    name = "torch"

    def __init__(self, request: EngineRequest, device: Device) -> None:
        refuse_conflicts(request, 1)
        self.request = request
        self.device = device
        self.spec = build_spec(request, device.device)

    @classmethod
    def open(cls, request: EngineRequest) -> "TorchEngine":
        """Find the device. Raises `DeviceError` if what was asked for is absent or unusable."""
        return cls(request, find_device(request.device))

    def describe(self) -> DeviceFacts:
        """What it runs on."""
        limit, source = memory_limit(self.device.device)
        notes = slow_formats(device_name(self.device.device), self.request.precision.compute)
        return DeviceFacts(
            platform=self.device.platform, kind=device_name(self.device.device), count=self.spec.mesh.fsdp,
            memory_limit_bytes=limit, memory_limit_source=source, mesh={"fsdp": self.spec.mesh.fsdp, "tp": 1},
            versions=library_versions(), reason="; ".join([self.device.reason, *notes]))

    def dtypes(self) -> Mapping[str, str]:
        """Number formats of the tensors that the step really holds."""
        stored = dtype_name(self.spec.parameter_dtype)
        return {"parameters": stored, "compute": dtype_name(self.spec.compute_dtype),
                "moments": self._moment_formats(), "gradients": stored, "accumulator": stored}

    def _moment_formats(self) -> str:
        with torch.device("meta"):
            probe = torch.empty((2, 2), dtype=self.spec.parameter_dtype)
            formats = {dtype_name(x.dtype) for x in self.spec.optimizer.init(probe).values()}
        master = {"float32"} if self.spec.rounding == "master_fp32" else set()
        return " and ".join(sorted(formats | master))

    def init(self, seed: int) -> State:
        """A fresh state with random weights; the same numbers on every device."""
        model = build_model(self.spec)
        fill_random(self.spec, model, seed)
        return make_state(self.spec, model, dict(model.named_parameters()))

    def load(self, weights: Path) -> State:
        """A fresh optimizer on weights from a directory in Hugging Face's format."""
        model = build_model(self.spec)
        checkpoint.load_params(weights, self.spec.shape, dict(model.named_parameters()))
        return make_state(self.spec, model, dict(model.named_parameters()))

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update on one batch; ``state`` is changed in place."""
        refuse_conflicts(self.request, batch.tokens.shape[0])
        rows, total = to_rows(self.spec, batch)
        loss, norm, changed = run_step(self.spec, state, rows, total, learning_rate).tolist()
        return state, StepResult(loss=loss, grad_norm=norm, share_of_weights_changed=changed)

    @torch.no_grad()
    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Loss of a batch, no update."""
        rows, _ = to_rows(self.spec, batch)
        total = sum(float(micro_batch_loss(self.spec, state.model, part)) for part in rows)
        return LossSum(loss_sum=total, supervised_tokens=batch.supervised_tokens)

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy continuations in the order given."""
        return self._answers(state, prompts, max_new_tokens, stop_ids, lambda indices: greedy)

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One drawn continuation per prompt, in the order given; a prompt's draw follows from its own seed."""
        if temperature <= 0:
            raise RequestError(f"temperature: {temperature:g}", "a temperature above zero", "leave it out: greedy")
        return self._answers(state, prompts, max_new_tokens, stop_ids,
                             lambda indices: drawn(temperature, [seeds[i] for i in indices]))

    def _answers(self, state: State, prompts: Sequence[Sequence[int]], max_new_tokens: int, stop_ids: Sequence[int],
                 pick: Any) -> list[Completion]:
        if any(len(prompt) == 0 for prompt in prompts):
            raise RequestError("an empty prompt", "prompts of at least one token")
        answers: list[Completion] = [Completion(tokens=[], finish_reason="length")] * len(prompts)
        for indices in order(prompts):
            chosen: Pick = pick(indices)
            found = answer(self.spec, state.model, [prompts[i] for i in indices], max_new_tokens=max_new_tokens,
                           stop_ids=stop_ids, pick=chosen)
            for i, completion in zip(indices, found, strict=True):
                answers[i] = completion
        return answers

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` and ``optimizer.safetensors``."""
        checkpoint.save(state, directory)

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote, bit for bit."""
        model = build_model(self.spec)
        return checkpoint.restore(make_state(self.spec, model, dict(model.named_parameters())), directory)

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format."""
        checkpoint.export(self.spec, state.trained, directory)

    def memory(self) -> Memory:
        """Peak memory so far: what PyTorch's allocator reserved, or the process's peak resident set on a CPU."""
        if self.device.platform == "gpu":
            return Memory(peak_bytes=torch.cuda.max_memory_reserved(self.device.device),
                          source="device (max_memory_reserved)")
        scale = 1 if sys.platform == "darwin" else 1024
        return Memory(peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale,
                      source="process (peak resident set)")

    def inspect(self, batch: Batch) -> Inspection:
        """What a step on a batch of this shape needs."""
        refuse_conflicts(self.request, batch.tokens.shape[0])
        return inspect.inspection(self.spec, self.request, batch.tokens.shape)

    def check_device(self) -> Mapping[str, Any]:
        """Run a matrix product and compare it with NumPy."""
        return check_kernels(self.device.device, self.request.precision.compute)

    def environment_files(self) -> Mapping[str, str]:
        """Texts about PyTorch, CUDA and the driver, by file name, for the record."""
        return environment_files(self.device.device)
