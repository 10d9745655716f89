"""Adapters of LoRA (Hu et al., 2021): their tensors, initial values, dropout, and merging into the weights.

An adapter is ``lora_A.weight`` ``[L, r, in]`` and ``lora_B.weight`` ``[L, out, r]`` in float32 next to a frozen weight.
``lora.scale`` ``[L]`` is stored with the weights, so that the tree of tensors alone determines the model.

Source: https://arxiv.org/abs/2106.09685
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from workings.config.method import AdapterFields, FullConfig, LoraConfig, QloraConfig
from workings.engines.jax.init import name_key, tensor_key
from workings.engines.jax.nf4 import BLOCK
from workings.engines.jax.params_tree import LAYERS, stacks
from workings.engines.jax.projection import ADAPTER_A, ADAPTER_B, DROPOUT_KEY, DROPOUT_RATE, SCALE
from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import find_projections, layer_shapes


@dataclass(frozen=True, kw_only=True)
class Lora:
    """The adapters of a model."""

    method: AdapterFields
    """The recipe's settings, such as rank and alpha."""
    targets: tuple[str, ...]
    """Projections with an adapter, such as ``self_attn.q_proj``."""
    four_bits: bool
    """Whether all projections are stored in NF4 (QLoRA)."""


def make_lora(method: FullConfig | LoraConfig | QloraConfig, shape: ModelShape, tp: int) -> Lora | None:
    """The adapters of a method; None for full fine-tuning. Raises `RequestError` if they do not fit the model."""
    if isinstance(method, FullConfig):
        return None
    lora = Lora(method=method, four_bits=method.name == "qlora", targets=find_projections(method.target_modules, shape))
    if lora.four_bits:
        for layers in stacks(shape):
            _refuse_cut_blocks(shape, layers[0], tp)
    return lora


def _refuse_cut_blocks(shape: ModelShape, layer: int, tp: int) -> None:
    sizes = layer_shapes(shape, layer)
    for name in family_of(shape).projections:
        if f"{name}.weight" not in sizes:
            continue
        out, inner = sizes[f"{name}.weight"]
        # `tp` splits the outputs of some projections and the inputs of others.
        tp_cuts_blocks = tp > 1 and (out % (BLOCK * tp) or inner % (BLOCK * tp))
        if out * inner % BLOCK or tp_cuts_blocks:
            raise RequestError(f"method.name=qlora does not work with mesh.tp={tp}: {name} is {out} x {inner}",
                               f"sides that are multiples of {BLOCK * tp}: blocks of {BLOCK} are not cut",
                               "mesh.tp=1" if tp > 1 else "method.name=lora")


def adapter_shapes(lora: Lora, shape: ModelShape) -> dict[str, jax.ShapeDtypeStruct]:
    """Flat names and shapes of all adapters and their scale; layers without a projection have no adapter for it."""
    shapes = {}
    for layers, prefix in stacks(shape).items():
        sizes, count = layer_shapes(shape, layers[0]), len(layers)
        shapes[f"{LAYERS}{prefix}{SCALE}"] = jax.ShapeDtypeStruct((count,), jnp.float32)
        for target in [target for target in lora.targets if f"{target}.weight" in sizes]:
            out, inner = sizes[f"{target}.weight"]
            for part, size in ((ADAPTER_A, (lora.method.rank, inner)), (ADAPTER_B, (out, lora.method.rank))):
                shapes[f"{LAYERS}{prefix}{target}.{part}"] = jax.ShapeDtypeStruct((count, *size), jnp.float32)
    return shapes


def init_adapters(seed: Any, lora: Lora, shape: ModelShape) -> dict[str, jax.Array]:
    """Initial values as in peft: A is uniform within ``in ** -0.5`` (``kaiming_uniform_(a=5 ** 0.5)``), B is zero."""
    values = {}
    for name, spec in adapter_shapes(lora, shape).items():
        if name.endswith(ADAPTER_A):
            bound = spec.shape[-1] ** -0.5
            values[name] = jax.random.uniform(tensor_key(seed, name), spec.shape, jnp.float32, -bound, bound)
        elif name.endswith(ADAPTER_B):
            values[name] = jnp.zeros(spec.shape, jnp.float32)
        else:
            values[name] = jnp.full(spec.shape, lora.method.scale, jnp.float32)
    return values


def dropout_tensors(lora: Lora | None, shape: ModelShape, key: jax.Array | None) -> dict[str, jax.Array]:
    """Tensors for dropout in a micro batch by flat name: a key and a rate for each projection of each layer."""
    if lora is None or key is None:
        return {}
    tensors = {}
    for layers, prefix in stacks(shape).items():
        sizes = layer_shapes(shape, layers[0])
        for target in [target for target in lora.targets if f"{target}.weight" in sizes]:
            own = name_key(key, target)
            name = f"{LAYERS}{prefix}{target}."
            tensors[name + DROPOUT_KEY] = jax.vmap(jax.random.fold_in, (None, 0))(own, jnp.asarray(layers))
            tensors[name + DROPOUT_RATE] = jnp.full(len(layers), lora.method.dropout, jnp.float32)
    return tensors


def dropout_keys(lora: Lora | None, seed: int, step: jax.Array | int, count: int) -> jax.Array | None:
    """``[A]`` random keys of a step's micro batches, from seed, step and place only; None without dropout."""
    if lora is None or not lora.method.dropout:
        return None
    step_key = jax.random.fold_in(tensor_key(seed, "adapter dropout"), step)
    return jax.vmap(jax.random.fold_in, (None, 0))(step_key, jnp.arange(count))


def merged(weight: jax.Array, a: jax.Array, b: jax.Array, scale: jax.Array, dtype: Any) -> jax.Array:
    """``[L, out, in]`` weights with their adapters added, rounded once."""
    delta = jnp.einsum("lor,lri->loi", b, a, precision="highest")
    return (weight.astype(jnp.float32) + scale[:, None, None] * delta).astype(dtype)
