"""LoRA (Hu et al., 2021) in Hugging Face's terms: projections with an adapter, its tensors and their initial values.

An adapter is ``lora_A.weight`` ``[L, r, in]`` and ``lora_B.weight`` ``[L, out, r]`` in float32 next to a frozen weight,
layers stacked like all others. ``lora.scale`` ``[L]`` is stored with the weights, so that the tree alone determines
the model.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from workings.config.method import AdapterFields, FullConfig, LoraConfig, QloraConfig
from workings.engines.jax.init import name_key, tensor_key
from workings.engines.jax.nf4 import BLOCK
from workings.engines.jax.params_tree import LAYERS, stacks
from workings.engines.jax.projection import ADAPTER, DROPOUT_KEY, DROPOUT_RATE, SCALE
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.weights import find_projections, layer_shapes, projections


@dataclass(frozen=True, kw_only=True)
class Lora:
    """The adapters of a model."""

    method: AdapterFields
    """Rank, alpha and what follows from them."""
    targets: tuple[str, ...]
    """Projections with an adapter, such as ``self_attn.q_proj``."""
    four_bits: bool
    """Whether all projections are stored in NF4 (QLoRA)."""


def make_lora(method: FullConfig | LoraConfig | QloraConfig, shape: ModelShape, tp: int) -> Lora | None:
    """The adapters of a recipe's `method`; None for full fine-tuning.

    Raises `RequestError` for a projection that the model does not have, or 4-bit blocks that ``tp`` would cut.
    """
    if isinstance(method, FullConfig):
        return None
    lora = Lora(method=method, four_bits=method.name == "qlora",
                targets=find_projections(method.target_modules, shape))
    sizes = [layer_shapes(shape, layers[0]) for layers in stacks(shape)] if lora.four_bits else []
    for name, (out, inner) in ((name, size[f"{name}.weight"]) for size in sizes for name in projections(shape)
                               if f"{name}.weight" in size):
        # Both sides, because `tp` splits the outputs of some projections and the inputs of others.
        if out * inner % BLOCK or (tp > 1 and (out % (BLOCK * tp) or inner % (BLOCK * tp))):
            raise RequestError(f"method.name=qlora does not work with mesh.tp={tp}: {name} is {out} x {inner}",
                               f"sides that are multiples of {BLOCK * tp}: blocks of {BLOCK} are not cut",
                               "mesh.tp=1" if tp > 1 else "method.name=lora")
    return lora


def adapter_shapes(lora: Lora, shape: ModelShape) -> dict[str, jax.ShapeDtypeStruct]:
    """Flat names and shapes of all adapters and their scale; layers without a projection have no adapter for it."""
    shapes = {}
    for layers, prefix in stacks(shape).items():
        # The layers of a stack are alike, so the first one speaks for all.
        sizes, count = layer_shapes(shape, layers[0]), len(layers)
        shapes[f"{LAYERS}{prefix}{SCALE}"] = jax.ShapeDtypeStruct((count,), jnp.float32)
        for target in [target for target in lora.targets if f"{target}.weight" in sizes]:
            out, inner = sizes[f"{target}.weight"]
            for part, size in zip(ADAPTER, ((lora.method.rank, inner), (out, lora.method.rank)), strict=True):
                shapes[f"{LAYERS}{prefix}{target}.{part}"] = jax.ShapeDtypeStruct((count, *size), jnp.float32)
    return shapes


def init_adapters(seed: Any, lora: Lora, shape: ModelShape) -> dict[str, jax.Array]:
    """Initial values as in peft: A uniform within ``in ** -0.5`` (its ``kaiming_uniform_(a=5 ** 0.5)``), B zero.

    The random numbers depend on seed and name of the tensor only, so they are the same on every mesh.
    """
    values = {}
    for name, spec in adapter_shapes(lora, shape).items():
        if name.endswith(ADAPTER[0]):
            bound = spec.shape[-1] ** -0.5
            values[name] = jax.random.uniform(tensor_key(seed, name), spec.shape, jnp.float32, -bound, bound)
        elif name.endswith(ADAPTER[1]):
            values[name] = jnp.zeros(spec.shape, jnp.float32)
        else:
            # The scale is a tensor of the weights, so that a checkpoint with another alpha needs no other program.
            values[name] = jnp.full(spec.shape, lora.method.scale, jnp.float32)
    return values


def dropout_tensors(lora: Lora | None, shape: ModelShape, key: jax.Array | None) -> dict[str, jax.Array]:
    """What a micro batch adds to the flat weights so that adapters drop inputs: a key and the rate for each of them.

    As in peft each projection of each layer has its own mask; it depends on the micro batch's key and on these.
    """
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
    """``[A]`` a random key for each of ``count`` micro batches of a step; None without dropout."""
    if lora is None or not lora.method.dropout:
        return None
    # From seed, step and place alone, so that a resumed or repeated step drops the same inputs.
    step_key = jax.random.fold_in(tensor_key(seed, "adapter dropout"), step)
    return jax.vmap(jax.random.fold_in, (None, 0))(step_key, jnp.arange(count))


def merged(weight: jax.Array, a: jax.Array, b: jax.Array, scale: jax.Array, dtype: Any) -> jax.Array:
    """``[L, out, in]`` weights with their adapters added, rounded once."""
    # By default an accelerator may round float32 factors to fewer bits; an export runs once, so it may be slow.
    delta = jnp.einsum("lor,lri->loi", b, a, precision="highest")
    return (weight.astype(jnp.float32) + scale[:, None, None] * delta).astype(dtype)
