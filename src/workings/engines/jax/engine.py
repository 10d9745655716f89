"""The JAX engine: opens devices, compiles the pure functions of this package for them, and moves arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines import base
from workings.engines.gpu_settings import gpu_share
from workings.engines.jax import checkpoint, device, processes, spec
from workings.engines.jax.generate import Generator
from workings.engines.jax.loss_positions import LOSS_POSITIONS
from workings.engines.jax.model import final_logits, unembedding
from workings.engines.jax.params_tree import Params, flatten_params, unflatten_params
from workings.engines.jax.planning import JaxPlanning
from workings.engines.jax.projection import SCALE
from workings.engines.jax.sharding import make_layout
from workings.engines.jax.step import State, all_hidden_states, evaluate, log_probs
from workings.engines.jax.target import inspection, refusal
from workings.engines.jax.top_tokens import most_likely
from workings.hardware.device import DeviceFacts
from workings.hardware.machine import cpu_model
from workings.hardware.memory import PROCESS_PEAK, peak_resident_bytes, return_free_memory
from workings.models.batch import ROWS, Batch


class JaxEngine(JaxPlanning):
    """`workings.engines.base.Engine` on JAX. Open it with `JaxEngine.open`."""

    join = staticmethod(processes.join)

    def __init__(self, request: base.EngineRequest, devices: device.Devices) -> None:
        self.request = request
        self.devices = devices
        self.layout = make_layout(devices.devices, request.mesh)
        self.spec = spec.build_spec(request, self.layout, devices.platform, device.smallest_memory(self._own()))
        # Shapes only, so that programs can be compiled before any array is allocated.
        self.abstract_state = spec.abstract_state(self.spec)
        self.shardings = spec.state_shardings(self.spec, self.abstract_state)
        self._steps: dict[Any, Any] = {}
        self._forward: dict[Any, Any] = {}
        self._generator = Generator(self.spec)
        self._random_params = jax.jit(partial(spec.initial_params, self.spec), out_shardings=self.shardings["params"])
        self.compilations = 0
        """Number of step programs compiled so far: one for each batch shape."""

    @classmethod
    def open(cls, request: base.EngineRequest) -> "JaxEngine":
        """Find the devices. Raises `DeviceError` if the requested device is absent or unusable."""
        devices = device.find_devices(request.device)
        processes.refuse_unconnected_hosts(devices.devices)
        # JAX opens its cache once in a process, with the first compilation.
        if devices.platform == "cpu":
            device.keep_programs()
        return cls(request, devices)

    def _own(self) -> tuple[jax.Device, ...]:
        """Devices of the mesh that belong to this process."""
        return tuple(each for each in self.layout.mesh.devices.flat if each.process_index == jax.process_index())

    def describe(self) -> DeviceFacts:
        """The devices."""
        platform = self.devices.platform
        limit, source = device.memory_limit(self._own()[0])
        reasons = [self.devices.reason, *device.coarser_products(platform, self.request.precision.compute)]
        return DeviceFacts(
            platform=platform, kind=cpu_model() if platform == "cpu" else str(self.devices.devices[0].device_kind),
            count=self.layout.shape.devices, memory_limit_bytes=limit, memory_limit_source=source,
            mesh=dict(self.layout.mesh.shape), memory_share=gpu_share() if platform == "gpu" else 1.0,
            versions=device.versions(), reason="; ".join(reasons))

    def dtypes(self) -> Mapping[str, str]:
        """Number formats of the step's arrays, read from the state and the program."""
        def of(tree: Any) -> str:
            return " and ".join(sorted({str(x.dtype) for x in jax.tree.leaves(tree)}))

        trained = of(self.spec.trained(self.abstract_state["params"]))
        return {"parameters": of(self.abstract_state["params"]), "compute": str(np.dtype(self.spec.compute_dtype)),
                "moments": of(self.abstract_state["moments"]), "gradients": trained, "accumulator": trained}

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A new state with random weights; the same numbers on every mesh."""
        return self._fresh(self._first_params(None, seed), trainable)

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A new state with weights from a directory in Hugging Face's format."""
        return self._fresh(self._first_params(weights, self.request.seed), trainable)

    def _first_params(self, weights: Path | None, seed: int) -> Any:
        """Initial parameters: weights from a directory or random ones from the seed, and new adapters."""
        if weights is None:
            return self._random_params(np.uint32(seed))
        params = checkpoint.load_params(weights, self.spec, self.abstract_state["params"], self.shardings["params"],
                                        seed)
        return_free_memory()
        return params

    def _fresh(self, params: Any, trainable: bool) -> State:
        state = {"params": params, "step": jax.device_put(np.int32(0), self.shardings["step"])}
        if not trainable:
            return state
        moments = jax.jit(self.spec.fresh_moments, out_shardings=self.shardings["moments"])(params)
        return {**state, "moments": moments}

    def _arrays(self, batch: Batch, signals: tuple[str, ...] = ()) -> dict[str, Any]:
        """A batch as arguments of the compiled programs. Every process has the whole batch and passes its own rows."""
        given = batch.arrays
        arrays = {name: given[name] for name in (*ROWS, *signals)}
        # With one process, the compiled program itself splits NumPy arrays.
        if jax.process_count() == 1:
            return arrays
        sharding = self.layout.batch()
        return {name: jax.make_array_from_callback(x.shape, sharding, x.__getitem__) for name, x in arrays.items()}

    def compiled_step(self, batch: Batch) -> Any:
        """The executable (`jax.stages.Compiled`) that `step` runs for batches of this shape; compiled once."""
        loss_positions = self._loss_positions(batch)
        key = batch.tokens.shape, *(x.shape for x in loss_positions.values())
        if key not in self._steps:
            self._steps[key] = spec.lower_step(self.spec, self.abstract_state, self.shardings, batch.tokens.shape,
                                               loss_positions).compile()
            self.compilations += 1
        return self._steps[key]

    def _loss_positions(self, batch: Batch) -> dict[str, np.ndarray]:
        """The batch's loss positions as an argument of the step; empty if the step computes all positions."""
        if batch.loss_positions is None or not self.spec.at_loss_positions:
            return {}
        return {LOSS_POSITIONS: batch.loss_positions}

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, base.StepResult]:
        """One update with one batch; ``state`` is consumed."""
        base.require_signals(self.spec.objective, batch)
        arrays = self._arrays(batch, self.spec.objective.signals) | self._loss_positions(batch)
        run = self.compiled_step(batch)
        after, numbers, log_probs = run(state, arrays, np.float32(batch.divisor), np.float32(learning_rate))
        # Reading the numbers waits for the device.
        return after, base.StepResult.of(np.asarray(numbers).tolist(), self.spec.objective.metrics,
                                         None if log_probs is None else np.asarray(log_probs))

    def evaluate(self, state: State, batch: Batch) -> base.LossSum:
        """Loss of a batch, no update."""
        total = float(self._run_forward(evaluate, state, batch))
        return base.LossSum(loss_sum=total, supervised_tokens=batch.supervised_tokens)

    def log_probs(self, state: State, batch: Batch) -> np.ndarray:
        """``[A, B, S]`` float32 log probabilities of the targets; 0 where they are not supervised."""
        return np.asarray(self._run_forward(log_probs, state, batch))

    def most_likely(self, state: State, batch: Batch, count: int, below: int) -> tuple[np.ndarray, np.ndarray]:
        """``[A, B, S, K]`` most likely tokens of each supervised position, and their log probabilities."""
        tokens, log_probs = self._run_forward(most_likely, state, batch, count, below)
        return np.asarray(tokens), np.asarray(log_probs)

    def without_adapters(self, state: State) -> State:
        """The model without its adapters. It shares the frozen arrays of ``state``, which the next step consumes."""
        base.require_adapters(self.request.method)
        params = flatten_params(state["params"])
        # An adapter whose scale is zero adds nothing.
        shardings = flatten_params(self.shardings["params"])
        zeros = {name: jax.jit(jnp.zeros_like, out_shardings=shardings[name])(x)
                 for name, x in params.items() if name.endswith(SCALE)}
        return {"params": unflatten_params(params | zeros), "step": state["step"]}

    def logits(self, state: State, batch: Batch) -> np.ndarray:
        """``[B, S, V]`` float32 logits of a batch's first micro batch, for comparisons of engines."""
        @jax.jit
        def compute(params: Params, rows: dict[str, jax.Array]) -> jax.Array:
            return final_logits(all_hidden_states(self.spec, params, rows), unembedding(params), self.spec.shape)

        return np.asarray(compute(state["params"], {name: batch.arrays[name][0] for name in ROWS}))

    def _run_forward(self, program: Callable[..., Any], state: State, batch: Batch, *settings: int) -> Any:
        """Run ``program(*settings, spec, params, batch)``, compiled once for each shape."""
        key = program, settings, batch.tokens.shape
        if key not in self._forward:
            self._forward[key] = spec.forward_program(partial(program, *settings), self.spec, self.shardings)
        return self._forward[key](state["params"], self._arrays(batch))

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[base.Completion]:
        """Greedy completions in the order of the prompts."""
        return self._generator.answer(state["params"], prompts, max_new_tokens, stop_ids)

    def stream(self, state: State, prompt: Sequence[int], *, max_new_tokens: int, stop_ids: Sequence[int],
               tell: Callable[[int], None]) -> base.Completion:
        """The completion that `generate` returns for one prompt; ``tell`` gets its tokens one by one."""
        return self._generator.stream(state["params"], prompt, max_new_tokens, stop_ids, tell)

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[base.Completion]:
        """One sampled completion per prompt, in their order; each depends on its own prompt and seed only."""
        return self._generator.answer(state["params"], prompts, max_new_tokens, stop_ids, temperature, seeds)

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` (``adapter_model.safetensors``) and ``optimizer.safetensors``."""
        checkpoint.save(state, self.spec, directory)

    def save_shards(self, state: State, directory: Path) -> None:
        """Write this process's part of both files; returns before the other processes have written theirs."""
        checkpoint.save_shards(state, self.spec, directory)

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote, bit for bit, on this engine's mesh."""
        first_params = partial(self._first_params, self.request.weights, self.request.seed)
        return checkpoint.restore(directory, self.spec, self.abstract_state, self.shardings, first_params)

    def with_adapters(self, state: State, directory: Path) -> State:
        """The same model with the adapters of a checkpoint."""
        base.require_adapters(self.request.method)
        read = checkpoint.saved_weights(directory, self.spec, self.abstract_state["params"], self.shardings["params"])
        return {**state, "params": unflatten_params(flatten_params(state["params"]) | read)}

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format; adapters merged, and separately for PEFT."""
        checkpoint.export(state["params"], self.spec, directory)

    def memory(self) -> base.Memory:
        """Peak memory so far: the device's own count, or the process's peak resident set on a CPU."""
        peak = max((each.memory_stats() or {}).get("peak_bytes_in_use", 0) for each in self._own())
        if peak > 0:  # a CPU has no statistics
            return base.Memory(peak_bytes=int(peak), source="device (memory_stats)")
        return base.Memory(peak_bytes=peak_resident_bytes(), source=PROCESS_PEAK)

    def inspect(self, batch: Batch) -> base.Inspection:
        """The compiler's memory analysis of the executable that `step` runs for this shape, or its refusal."""
        try:
            return inspection(self.compiled_step(batch))
        except jax.errors.JaxRuntimeError as error:
            if refused := refusal(error):
                return refused
            raise

    def check_device(self) -> Mapping[str, Any]:
        """Run a matrix product on every device of this process and compare it with NumPy."""
        return device.check_kernels(self._own(), self.request.precision.compute)
