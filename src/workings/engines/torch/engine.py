"""The PyTorch engine: `workings.engines.base.Engine` by the functions of this package."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workings.config.method import FullConfig
from workings.config.training import MeshConfig
from workings.engines import base
from workings.engines.prefill import MAX_PROMPTS, check_prompts, check_sampling, copies_of_each
from workings.engines.refusals import refuse, torch_refusals
from workings.engines.torch import checkpoint, device, generate, lora, model, processes, step
from workings.engines.torch.backward_optimizer import refuse_conflicts
from workings.engines.torch.decode import PickToken
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.length_bucketing import Part, one_part, parts_by_length
from workings.engines.torch.linear_attention import has_linear_state
from workings.engines.torch.mask_check import check_masks, refuse_unsuited
from workings.engines.torch.planning import TorchPlanning, TracedCard, trace_for
from workings.engines.torch.sharding import ProcessMesh, find_mesh
from workings.engines.torch.spec import build_spec, dtype_name
from workings.engines.torch.step import Rows, State
from workings.engines.torch.trace.inspect import inspect_step
from workings.engines.torch.triton.check import kernel_problem, kernels_run_on
from workings.hardware.device import DeviceFacts
from workings.hardware.machine import cpu_model
from workings.hardware.memory import PROCESS_PEAK, peak_resident_bytes
from workings.models.batch import Batch


def _formats(tensors: Iterable[torch.Tensor]) -> str:
    """Number formats of tensors, by their names in PyTorch."""
    return " and ".join(sorted({dtype_name(x.dtype) for x in tensors}))


class TorchEngine(TorchPlanning):
    """`workings.engines.base.Engine` on PyTorch. Open it with `TorchEngine.open`."""

    join = staticmethod(processes.join)

    def __init__(self, request: base.EngineRequest, found: device.Device) -> None:
        refuse_conflicts(request, 1)
        self.request = request
        self.device = found
        self.spec = build_spec(request, found.device, find_mesh(request, found.platform))
        lora.refuse_unknown(self.spec)
        refuse_unsuited(self.spec)

    @classmethod
    def open(cls, request: base.EngineRequest) -> "TorchEngine":
        """Find the device. Raises `DeviceError` if what was asked for is absent or unusable."""
        # Before this process opens a device or waits for others.
        refuse(torch_refusals(request))
        return cls(request, device.find_device(request.device))

    def describe(self) -> DeviceFacts:
        """The device."""
        kind = torch.cuda.get_device_name(self.device.device) if self.device.platform == "gpu" else cpu_model()
        limit, source = device.memory_limit(self.device.device)
        notes = [self.device.reason, *device.slow_formats(kind, self.request.precision.compute)]
        if self.device.platform == "gpu" and (why := kernel_problem(self.device.device)):
            notes.append(f"PyTorch's own operations compute instead of kernels, which takes longer: {why}")
        return DeviceFacts(
            platform=self.device.platform, kind=kind, count=self.spec.mesh.processes, memory_limit_bytes=limit,
            memory_limit_source=source, mesh=self.spec.mesh.shape.axes(), versions=device.versions(),
            reason="; ".join(notes))

    def dtypes(self) -> Mapping[str, str]:
        """Number formats of the tensors that the step really holds, read from a model without memory."""
        with torch.device("meta"):
            state = step.empty_state(replace(self.spec, device=torch.device("meta"), mesh=ProcessMesh()))
        quantized = [x.codes for x in lora.base_weights(state.model).values() if isinstance(x, FourBitLinear)]
        parameters = _formats([*state.model.parameters(), *quantized]).replace("uint8", "nf4")
        trained = _formats(state.trained.values())
        moments = _formats(x for tree in state.moments.values() for x in tree.values())
        return {"parameters": parameters, "compute": dtype_name(self.spec.product_dtype), "moments": moments,
                "gradients": trained, "accumulator": trained}

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A fresh state with random weights; the same numbers on every device."""
        return self._fresh(step.empty_state(self.spec, trainable=trainable), None, seed)

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A fresh optimizer on weights from a directory in Hugging Face's format."""
        return self._fresh(step.empty_state(self.spec, trainable=trainable), weights, self.request.seed)

    def _fresh(self, state: State, directory: Path | None, seed: int) -> State:
        """The state with weights from a directory (None: random ones) and with initial adapters."""
        if directory is None:
            model.fill_random(self.spec, state.model, seed)
        else:
            checkpoint.load_weights(self.spec, state.model, directory)
        lora.fill_adapters(state.model, seed)
        return self._checked(step.fill_masters(state))

    def _checked(self, state: State) -> State:
        """The state. Raises `RequestError` if the masks of an unverified model are wrong."""
        if not self.spec.shape.verified:
            check_masks(self.spec, state.root)
        return state

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, base.StepResult]:
        """One update with one batch; ``state`` is changed in place."""
        refuse_conflicts(self.request, batch.tokens.shape[0])
        base.require_signals(self.request.objective, batch)
        parts = self._parts(batch)
        objective = self.request.objective
        micro_batches = [rows for _, part in parts for rows in step.to_rows(self.spec, part, objective.signals)]
        numbers, log_probs = step.run_step(self.spec, state, micro_batches, batch.divisor, learning_rate)
        at_positions = self._at_positions(batch, parts, micro_batches, log_probs) if log_probs else None
        return state, base.StepResult.of(numbers.tolist(), objective.metrics, at_positions)

    def _parts(self, batch: Batch) -> list[Part]:
        """The batch as it is computed: grouped by length, or as it is."""
        return parts_by_length(batch) if self.spec.group_by_length else one_part(batch)

    @torch.no_grad()
    def evaluate(self, state: State, batch: Batch) -> base.LossSum:
        """Loss of a batch, no update."""
        sums = [state.run(partial(step.micro_batch_loss, self.spec, rows=rows))
                for rows in step.to_rows(self.spec, batch)]
        # In float64 the order of micro batches and processes hardly matters.
        total = float(self.spec.mesh.sum(torch.stack(sums).double().sum()))
        return base.LossSum(loss_sum=total, supervised_tokens=batch.supervised_tokens)

    @torch.no_grad()
    def log_probs(self, state: State, batch: Batch) -> np.ndarray:
        """``[A, B, S]`` float32 log probabilities of the targets; 0 where they are not supervised."""
        parts = self._parts(batch)
        micro_batches = [rows for _, part in parts for rows in step.to_rows(self.spec, part)]
        values = [state.run(partial(step.micro_batch_log_probs, self.spec, rows=rows)) for rows in micro_batches]
        return self._at_positions(batch, parts, micro_batches, values)

    def _at_positions(self, batch: Batch, parts: list[Part], micro_batches: list[Rows], values: list[torch.Tensor],
                      *size: int) -> np.ndarray:
        """``[A, B, S, *size]``: values ``[N, *size]`` of each micro batch at supervised positions; 0 at others."""
        accumulation, row_count, length = batch.tokens.shape
        merged = torch.zeros(accumulation * row_count, length, *size)
        numbers_of_each = [each for numbers, part in parts for each in numbers.reshape(part.tokens.shape[:2])]
        for numbers, rows, value in zip(numbers_of_each, micro_batches, values, strict=True):
            # Each process fills its own rows, and the sum over processes combines them.
            own = torch.zeros(*rows.tokens.shape, *size)
            own.view(-1, *size)[rows.index.cpu()] = value.cpu()
            merged[numbers[self.spec.mesh.rows(len(numbers))], :own.shape[1]] = own
        return self.spec.mesh.sum(merged.view(*batch.tokens.shape, *size).to(self.device.device)).cpu().numpy()

    @torch.no_grad()
    def most_likely(self, state: State, batch: Batch, count: int, below: int) -> tuple[np.ndarray, np.ndarray]:
        """``[A, B, S, K]`` most likely tokens of each supervised position, and their log probabilities."""
        parts, micro_batches = one_part(batch), step.to_rows(self.spec, batch)
        tokens, log_probs = [], []
        for rows in micro_batches:
            ids, their_log_probs = state.run(
                partial(step.micro_batch_most_likely, self.spec, rows=rows, count=count, below=below))
            tokens.append(ids.float())  # float32 holds every id exactly
            log_probs.append(their_log_probs)
        return (self._at_positions(batch, parts, micro_batches, tokens, count).astype(np.int32),
                self._at_positions(batch, parts, micro_batches, log_probs, count))

    def without_adapters(self, state: State) -> State:
        """The model without its adapters. It shares the weights of ``state``, so it stays valid after further steps."""
        base.require_adapters(self.request.method)
        return State(root=state.root, trained={}, moments={}, step=state.step, without_adapters=True)

    def logits(self, state: State, batch: Batch) -> np.ndarray:
        """``[B, S, V]`` float32 logits of a batch's first micro batch, for comparisons of engines."""
        rows = step.to_rows(self.spec, batch)[0]
        with torch.no_grad():
            hidden = model.hidden_states(state.model, rows.tokens, rows.positions, rows.visible)
            return model.final_logits(state.model, hidden, self.spec.shape.final_softcap).cpu().numpy()

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[base.Completion]:
        """Greedy completions in the order of the prompts."""
        return self._answers(state, prompts, max_new_tokens, stop_ids)

    def stream(self, state: State, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> base.Completion:
        """The completion that `generate` returns for one prompt; its tokens are passed on one by one."""
        def tell_token(token: int) -> None:
            if token not in stop_ids:
                tell(token)

        return self._answers(state, [prompt], max_new_tokens, stop_ids, tell=tell_token)[0]

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[base.Completion]:
        """One sampled completion per prompt, in the order of the prompts; it depends on its own seed."""
        check_sampling(prompts, temperature, seeds)
        return self._answers(state, prompts, max_new_tokens, stop_ids, temperature, seeds)

    def _answers(self, state: State, prompts: Sequence[Sequence[int]], max_new_tokens: int, stop_ids: Sequence[int],
                 temperature: float = 0.0, seeds: Sequence[int] = (),
                 tell: Callable[[int], None] | None = None) -> list[base.Completion]:
        """Completions in the order of the prompts, greedy at temperature 0."""
        check_prompts(prompts)
        mesh = self.spec.mesh
        copies = 1
        if self.spec.shape.verified:  # other caches may have contents that cannot be repeated
            copies = copies_of_each(prompts, min(MAX_PROMPTS, len(prompts) // mesh.processes))
        answers: dict[int, base.Completion] = {}
        for indices in generate.batch_indices(prompts, copies, mesh.processes,
                                              same_length=has_linear_state(state.model)):
            pick: PickToken = generate.greedy
            if temperature:
                own_seeds = [seeds[i] for i in indices[mesh.rows(len(indices))]]
                uniform = generate.uniform_numbers(own_seeds, max_new_tokens, self.device.device)
                pick = generate.sampled(temperature, uniform)
            length = max(len(prompts[i]) for i in indices) + max_new_tokens
            with torch.no_grad(), generate.gathering_once(self.spec, state, len(indices) // mesh.processes, length):
                completions = state.run(partial(
                    generate.complete, self.spec, prompts=[prompts[i] for i in indices], stop_ids=stop_ids,
                    max_new_tokens=max_new_tokens, pick=pick, copies=copies, tell=tell))
            answers |= zip(indices, completions, strict=True)
        return [answers[i] for i in range(len(prompts))]

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` and ``optimizer.safetensors``."""
        checkpoint.save(self.spec, state, directory)

    def save_shards(self, state: State, directory: Path) -> None:
        """Write this process's part of both files; returns before the other processes have written theirs."""
        checkpoint.save_shards(self.spec, state, directory)

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote, bit for bit; frozen weights are read from where the run read them."""
        state = step.empty_state(self.spec)
        if not isinstance(self.request.method, FullConfig):
            state = self._fresh(state, self.request.weights, self.request.seed)
        return self._checked(checkpoint.restore(self.spec, state, directory))

    def with_adapters(self, state: State, directory: Path) -> State:
        """The same model with the adapters of a checkpoint."""
        base.require_adapters(self.request.method)
        checkpoint.read_saved(self.spec, directory, lora.trainable_parameters(state.model))
        return state

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format, with adapters merged, and the adapters separately."""
        checkpoint.export(self.spec, state, directory)

    def memory(self) -> base.Memory:
        """Peak memory so far: what PyTorch's allocator reserved, or the process's peak resident set on a CPU."""
        if self.device.platform == "gpu":
            return base.Memory(peak_bytes=torch.cuda.max_memory_reserved(self.device.device),
                          source="device (max_memory_reserved)")
        return base.Memory(peak_bytes=peak_resident_bytes(), source=PROCESS_PEAK)

    def inspect(self, batch: Batch) -> base.Inspection:
        """Memory of a step for a batch of this shape, traced without running it."""
        platform, mesh, card = self.device.platform, self.spec.mesh, TracedCard()
        if platform == "gpu":
            facts = torch.cuda.get_device_properties(self.device.device)
            card = TracedCard(capability=f"{facts.major}.{facts.minor}", limit_bytes=facts.total_memory,
                              kernels=kernels_run_on(self.device.device))
        request = replace(self.request, mesh=MeshConfig(fsdp=mesh.fsdp, replicate=mesh.replicate))
        if mesh.processes == 1:
            return inspect_step(request, batch.shape, platform, card)
        # In a child process, because a trace pretends to be several processes, and this one has real ones.
        return trace_for(request, {"step": batch.shape}, platform, card)["step"]

    def check_device(self) -> Mapping[str, Any]:
        """Run a matrix product and compare it with NumPy."""
        return device.check_kernels(self.device.device, self.request.precision.compute)

    def environment_files(self) -> Mapping[str, str]:
        """Texts about PyTorch and the driver, by file name, for the record."""
        return device.environment_files()
