"""`engine: tunix`: Tunix's own model, loss, train step and sampler as an engine.

Devices, random weights and files are the JAX engine's: runs start from equal weights, and either reads checkpoints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tunix.generate.sampler import CacheConfig, Sampler

from workings.config.training import AdamWConfig
from workings.engines.base import Completion, EngineRequest, Inspection, LossSum, Memory, StepResult
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.generate import bucket, prompt_batches
from workings.engines.jax.params_tree import flatten_params, unflatten_params
from workings.engines.jax.spec import DTYPES
from workings.engines.jax.target import inspection
from workings.engines.prefill import MAX_PROMPTS
from workings.engines.tunix.bridge import Place, filled, from_tunix, to_tunix
from workings.engines.tunix.trainer import check_request, make_trainer, model_class
from workings.errors import RequestError
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch

PAD = -1
"""Not a token, because Tunix masks every token that equals its padding."""
NO_STOP = -2
"""A stop token that never comes."""
IDS_FOR_TEXT = SimpleNamespace(encode=list, decode=lambda ids: "", bos_id=lambda: None, eos_id=lambda: NO_STOP,
                               pad_id=lambda: PAD)
"""Tokenizer for Tunix whose texts are sequences of ids."""

State = Mapping[str, Any]
"""``model`` and ``optimizer``: `nnx.State`; ``step``: updates so far."""
SLOTS = {"exp_avg": "mu", "exp_avg_sq": "nu"}
"""The JAX engine's names of AdamW's moments -> optax's."""


class TunixEngine:
    """`workings.engines.base.Engine` on Tunix. Open it with `TunixEngine.open`."""

    name = "tunix"

    def __init__(self, request: EngineRequest, optimizer: AdamWConfig, jax_engine: JaxEngine) -> None:
        self.request = request
        self._jax_engine = jax_engine
        if jax_engine.layout.shape.devices > 1:
            raise RequestError(f"engine tunix does not take mesh.fsdp: {jax_engine.layout.shape.fsdp}",
                               "1, because it runs on one device", "mesh.fsdp=1, or engine=jax")
        dtype = DTYPES[request.precision.parameters]
        make_model = model_class(request.shape, dtype, remat=request.memory.remat == "layer")
        self._trainer = make_trainer(make_model, optimizer)
        self._model_state = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, dtype), self._trainer.model_state)
        # The optimizer's scalars are counters and settings, which keep their own number formats.
        self._optimizer_state = jax.tree.map(
            lambda x: x if x.ndim == 0 else jax.ShapeDtypeStruct(x.shape, dtype), self._trainer.optimizer_state)
        self._steps: dict[tuple[int, ...], Any] = {}
        self._evaluate = jax.jit(self._trainer.evaluate)
        self._samplers: dict[int, Any] = {}
        """By the number of slots of their cache."""

    @classmethod
    def open(cls, request: EngineRequest) -> "TunixEngine":
        """Find the device. Raises `DeviceError` without it, `RequestError` for what Tunix cannot do."""
        optimizer = check_request(request)
        # The JAX engine's attention is not used, but must be one that it accepts on every device.
        memory = request.memory.model_copy(update={"attention": "plain"})
        return cls(request, optimizer, JaxEngine.open(replace(request, memory=memory)))

    def describe(self) -> DeviceFacts:
        """The devices."""
        facts = self._jax_engine.describe()
        return replace(facts, versions={"google-tunix": version("google-tunix"), "flax": version("flax"),
                                        "optax": version("optax"), **facts.versions})

    def dtypes(self) -> Mapping[str, str]:
        """Number formats of the tensors that the step holds."""
        stored = str(np.dtype(DTYPES[self.request.precision.parameters]))
        return dict.fromkeys(("parameters", "compute", "moments", "gradients", "accumulator"), stored)

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A fresh state with the random weights that the JAX engine has for this seed; always with an optimizer."""
        return self._to_tunix_state(self._jax_engine.init(seed))

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A fresh optimizer on weights from a directory in Hugging Face's format."""
        return self._to_tunix_state(self._jax_engine.load(weights))

    def _inputs(self, batch: Batch) -> dict[str, np.ndarray]:
        """Arguments of `model_input`."""
        if int(batch.segment_ids.max(initial=0)) > 1:
            raise RequestError("engine tunix does not take packed rows", "one row a sequence", "data.packing=none")
        # Our loss mask is at the position that predicts a token, Tunix's is at the token. Position 0 is not read.
        return {"tokens": batch.tokens[0], "supervised": np.roll(batch.loss_mask[0], 1, -1),
                "real": batch.segment_ids[0]}

    def _compiled_step(self, shape: tuple[int, ...]) -> Any:
        if shape[0] != 1:
            raise RequestError(f"engine tunix does not take batch.accumulation: {shape[0]}",
                               "1: optax.MultiSteps averages micro batches as if each had as many supervised tokens",
                               "batch.accumulation=1, or engine=jax")
        if shape not in self._steps:
            batch = {name: jax.ShapeDtypeStruct(shape[1:], kind) for name, kind in (
                ("tokens", np.int32), ("supervised", np.float32), ("real", np.int32))}
            jitted = jax.jit(self._trainer.step, donate_argnums=1)
            self._steps[shape] = jitted.lower(self._model_state, self._optimizer_state, batch,
                                              jax.ShapeDtypeStruct((), np.float32)).compile()
        return self._steps[shape]

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update with one batch; ``state`` is consumed."""
        run = self._compiled_step(batch.tokens.shape)
        model, optimizer, numbers = run(state["model"], state["optimizer"], self._inputs(batch),
                                        np.float32(learning_rate))
        loss, norm, changed = np.asarray(numbers).tolist()
        return ({"model": model, "optimizer": optimizer, "step": state["step"] + 1},
                StepResult(loss=loss, grad_norm=norm, share_of_weights_changed=changed))

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Loss of a batch, no update."""
        mean = float(self._evaluate(state["model"], self._inputs(batch)))
        return LossSum(loss_sum=mean * batch.supervised_tokens, supervised_tokens=batch.supervised_tokens)

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy completions by Tunix's `Sampler`, in the order of the prompts."""
        answers: dict[int, Completion] = {}
        for indices, padded in self.prompt_batches(prompts):
            batch = [list(prompts[i]) for i in indices]
            batch += [batch[0]] * (bucket(len(batch), 8) - len(batch))  # few shapes, so few programs
            sampler = self._sampler(state, padded + bucket(max_new_tokens))
            sampled = sampler(batch, max_generation_steps=max_new_tokens, max_prompt_length=padded,
                              eos_tokens=list(stop_ids) or [NO_STOP])
            for i, tokens in zip(indices, jax.device_get(sampled.tokens), strict=False):
                answers[i] = Completion(tokens=np.asarray(tokens)[:max_new_tokens].tolist(),
                                        finish_reason="stop" if len(tokens) < max_new_tokens else "length")
        return [answers[i] for i in range(len(prompts))]

    def prompt_batches(self, prompts: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
        """Indices of prompts that are answered together, and the length that they are padded to."""
        if self.request.shape.family != "gemma2":
            return [(rows.indices, rows.tokens.shape[1]) for rows in prompt_batches(prompts)]
        # Not padded: in Tunix 0.1.7 a padded prompt of Gemma 2 has a wrong sliding window.
        lengths: dict[int, list[int]] = {}
        for i, prompt in enumerate(prompts):
            lengths.setdefault(len(prompt), []).append(i)
        return [(together[first:first + MAX_PROMPTS], length) for length, together in lengths.items()
                for first in range(0, len(together), MAX_PROMPTS)]

    def _sampler(self, state: State, slots: int) -> Any:
        """A `Sampler` whose cache has this many slots (prompt and new tokens together)."""
        # A sampler takes new weights only with the very placement of its first ones.
        weights = jax.device_put(state["model"], jax.sharding.SingleDeviceSharding(self._jax_engine.devices.devices[0]))
        if slots not in self._samplers:
            shape = self.request.shape
            cache = CacheConfig(cache_size=slots, num_layers=shape.layers, num_kv_heads=shape.kv_heads,
                                head_dim=shape.head_dim)
            self._samplers[slots] = Sampler(nnx.merge(self._trainer.model, weights), IDS_FOR_TEXT, cache)
        self._samplers[slots].transformer_state = weights
        return self._samplers[slots]

    def save(self, state: State, directory: Path) -> None:
        """Write ``model.safetensors`` and ``optimizer.safetensors``, names and shapes as the JAX engine's."""
        self._jax_engine.save(self._to_jax_state(state), directory)

    def restore(self, directory: Path) -> State:
        """The state that `save` (or the JAX engine with the same recipe) wrote, bit for bit."""
        return self._to_tunix_state(self._jax_engine.restore(directory))

    def export(self, state: State, directory: Path) -> None:
        """Weights and ``config.json`` in Hugging Face's format."""
        self._jax_engine.export(self._to_jax_state(state), directory)

    def memory(self) -> Memory:
        """Peak memory so far."""
        return self._jax_engine.memory()

    def inspect(self, batch: Batch) -> Inspection:
        """The compiler's memory analysis of the executable that `step` runs for this shape."""
        return inspection(self._compiled_step(batch.tokens.shape))

    def check_device(self) -> Mapping[str, Any]:
        """Run one small real kernel and compare it with NumPy."""
        return self._jax_engine.check_device()

    def _to_tunix_state(self, of_jax: Mapping[str, Any]) -> State:
        """The JAX engine's state as Tunix's."""
        convert = jax.jit(partial(to_tunix, shape=self.request.shape))
        moments = {theirs: convert(unflatten_params(of_jax["moments"][slot])) for slot, theirs in SLOTS.items()}

        def value(path: Place, kept: Any) -> jax.Array:
            slot, weight = _split_moment(path)
            if slot:
                return moments[slot][weight]
            if "hyperparams" in path:
                return jnp.zeros((), kept.dtype)
            return jnp.array(of_jax["step"], kept.dtype)  # a copy: the step donates, so counters may not share memory

        optimizer = nnx.from_flat_state([(path, x.replace(value(path, x.get_value())))
                                         for path, x in nnx.to_flat_state(self._optimizer_state)])
        return {"model": filled(self._model_state, convert(of_jax["params"])), "optimizer": optimizer,
                "step": int(of_jax["step"])}

    def _to_jax_state(self, state: State) -> State:
        """Tunix's state as the JAX engine's."""
        convert = jax.jit(partial(from_tunix, shape=self.request.shape, like=self._jax_engine.abstract_state["params"]))
        moments: dict[str, dict[Place, jax.Array]] = {name: {} for name in SLOTS.values()}
        for path, x in nnx.to_flat_state(state["optimizer"]):
            slot, weight = _split_moment(path)
            if slot:
                moments[slot][weight] = x.get_value()
        model = {path: x.get_value() for path, x in nnx.to_flat_state(state["model"])}
        return {"params": convert(model), "step": jnp.int32(state["step"]),
                "moments": {slot: flatten_params(convert(moments[name])) for slot, name in SLOTS.items()}}


def _split_moment(path: Place) -> tuple[str, Place]:
    """optax's slot and the weight's path: ``("mu", ("norm",))`` for ``(0, "mu", "norm")``; both empty for no moment."""
    for i, part in enumerate(path):
        if part in SLOTS.values():
            return str(part), path[i + 1:]
    return "", ()
