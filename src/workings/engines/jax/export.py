"""A trained model as transformers reads it and, where adapters were trained, the adapters as peft reads them."""

from functools import partial
from pathlib import Path
from typing import Any

import jax

from workings.engines import checkpoint_files as files
from workings.engines.jax.checkpoint import LazyArray, write
from workings.engines.jax.init import parameter_shapes
from workings.engines.jax.lora import merged
from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize
from workings.engines.jax.params_tree import Params, flatten_params, layer_tensor
from workings.engines.jax.projection import ADAPTER_A, ADAPTER_B, SCALE
from workings.engines.jax.sharding import NF4_TENSORS
from workings.engines.jax.step import StepSpec
from workings.models.shapes import to_hf_config


def export(params: Params, spec: StepSpec, directory: Path) -> None:
    """Full weights and ``config.json`` into an existing directory; adapters are merged, and also written separately.

    ``adapter/`` belongs on the weights that training started from, not on the merged ones.
    """
    tensors = flatten_params(params)
    # Shapes of the full model, for every kind of run: codes of fewer bits and adapters become plain weights.
    shapes = parameter_shapes(spec.shape, spec.parameter_dtype)
    # A merged weight is made when its turn has come, so only one at a time exists in addition to the state.
    write(directory / files.MODEL_FILE, {
        name: LazyArray(x.shape, x.dtype, partial(_full, tensors, name, x.shape[-1], x.dtype))
        for name, x in shapes.items()})
    # Stored precision by transformers' names, which are JAX's.
    dtype = str(next(iter(shapes.values())).dtype)
    # Every process enters `write`, because gathering needs all of them; files are the first one's alone.
    adapter, lora, writes = directory / files.ADAPTER_FOLDER, spec.lora, jax.process_index() == 0
    if writes:
        files.write_json(directory / files.CONFIG, to_hf_config(spec.shape) | {"dtype": dtype})
    if lora and writes:
        adapter.mkdir()
        targets = [name.rpartition(".")[2] for name in lora.targets]
        files.write_json(adapter / files.ADAPTER_CONFIG, files.adapter_config(lora.method, targets))
    if lora:
        write(adapter / files.ADAPTER_FILE, spec.trained(params))


def _full(tensors: dict[str, jax.Array], name: str, inner: int, dtype: Any) -> jax.Array:
    """A stacked weight, dequantized and with its adapter added."""
    stem = name.removesuffix("weight")
    run = partial(_combined, inner=inner, dtype=dtype)
    names = [name] if name in tensors else [stem + each for each in NF4_TENSORS if stem + each in tensors]
    if stem + ADAPTER_A in tensors:
        names += [stem + ADAPTER_A, stem + ADAPTER_B]
    if names == [name]:
        return tensors[name]
    scale = tensors.get(name.removesuffix(layer_tensor(name)) + SCALE)
    # Compiled, so that temporaries of the product are freed inside; split arrays stay split.
    return jax.jit(run)({each.removeprefix(stem): tensors[each] for each in names}, scale)


def _combined(tensors: dict[str, jax.Array], scale: jax.Array | None, inner: int, dtype: Any) -> jax.Array:
    if CODES in tensors:
        # Layer by layer, because the product of codes and scales is float32; the result is `[L, out, in]`.
        weight = jax.lax.map(lambda pair: dequantize(pair[0], pair[1], inner, dtype).T,
                             (tensors[CODES], tensors[ABSMAX]))
    else:
        weight = tensors["weight"]
    if scale is None or ADAPTER_A not in tensors:
        return weight
    return merged(weight, tensors[ADAPTER_A], tensors[ADAPTER_B], scale, dtype)
