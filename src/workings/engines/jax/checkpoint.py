"""Writes a state to safetensors and reads it back, one tensor at a time, with Hugging Face's names.

A checkpoint holds two files: the weights, ``model.safetensors``, and ``optimizer.safetensors``. If adapters are trained
it holds no other weights: ``adapter_model.safetensors`` with peft's names. A stack of layers
``layers.self_attn.q_proj.weight`` ``[L, ...]`` becomes one tensor per layer,
``model.layers.0.self_attn.q_proj.weight`` and so on.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from workings.config.method import FULL
from workings.engines import checkpoint_files as files
from workings.engines.jax.init import parameter_shapes
from workings.engines.jax.lora import adapter_shapes, init_adapters, merged
from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize, quantize, stored_shapes
from workings.engines.jax.params_tree import Params, flatten_params, layer_numbers, layer_tensor, unflatten_params
from workings.engines.jax.projection import ADAPTER, ADAPTER_A, ADAPTER_B, SCALE, is_adapter
from workings.engines.jax.sharding import NF4_TENSORS
from workings.engines.jax.step import StepSpec
from workings.engines.safetensors_file import Index, write_shard, write_tensors
from workings.engines.weight_files import model_weights
from workings.models.shapes import to_hf_config
from workings.models.shards import slice_name
from workings.models.weights import PEFT_PREFIX, layer_shapes


def unstacked(name: str, layers: int) -> list[str]:
    """Names in a file of the tensor with this flat name: one, or one per layer of a stack of ``layers``."""
    if not name.startswith("layers."):
        return [name]
    prefix = PEFT_PREFIX if is_adapter(name) else ""
    return [f"{prefix}model.layers.{i}.{layer_tensor(name)}" for i in layer_numbers(name, layers)]


def weights_file(spec: StepSpec) -> str:
    """Name of the file with the trained weights."""
    return files.ADAPTER_FILE if spec.lora else files.MODEL_FILE


@cache
def gather(replicated: NamedSharding, of_a_stack: bool) -> Any:
    """A program that copies an array to every device, or only the layer whose number is the second argument."""
    return jax.jit(lambda x, layer: x[layer] if of_a_stack else x, out_shardings=replicated)


def _stored_names(key: str, x: Any) -> list[tuple[str, int | None]]:
    """Names of a flat array's tensors in a file, and the index of each in a stack; None for an array without layers."""
    # In the optimizer's state the key is ``SLOT|NAME``, which is stored as ``SLOT.NAME``.
    slot, _, name = key.rpartition("|")
    prefix = f"{slot}." if slot else ""
    if not name.startswith("layers."):
        return [(f"{prefix}{name}", None)]
    return [(f"{prefix}{stored}", i) for i, stored in enumerate(unstacked(name, x.shape[0]))]


def write(path: Path, arrays: Mapping[str, Any], make: Callable[[str], jax.Array]) -> None:
    """Write flat arrays in process 0, with the help of the others; ``make`` gives each array when it is written."""
    plan: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    sources: dict[str, tuple[str, int | None]] = {}
    for key, x in arrays.items():
        for stored, layer in _stored_names(key, x):
            plan[stored] = (np.dtype(x.dtype), x.shape if layer is None else x.shape[1:])
            sources[stored] = (key, layer)
    # The layers of a stack follow each other, so each array is made once.
    last_made: dict[str, Any] = {}

    def fetch(stored: str) -> np.ndarray:
        key, layer = sources[stored]
        if key not in last_made:
            # Before the next array is made, so that only one exists.
            last_made.clear()
            made = make(key)
            last_made[key] = np.asarray(made) if made.is_fully_addressable else made
        return _fetched(last_made[key], layer)

    if jax.process_index() == 0:
        write_tensors(path, plan, fetch)
        return
    for stored in plan:
        fetch(stored)


def _fetched(array: Any, layer: int | None) -> np.ndarray:
    """An array or one layer of it in NumPy; if several processes have parts of it, all of them must call this."""
    if isinstance(array, np.ndarray):
        return array if layer is None else array[layer]
    program = gather(NamedSharding(array.sharding.mesh, PartitionSpec()), of_a_stack=layer is not None)
    return np.asarray(program(array, layer or 0).addressable_data(0))


def _files(state: Mapping[str, Any], spec: StepSpec) -> dict[str, dict[str, jax.Array]]:
    """Arrays of a checkpoint by file: the weights, and the optimizer's state with the step count."""
    slots = {f"{slot}|{name}": x for slot, tree in state["moments"].items() for name, x in tree.items()}
    return {weights_file(spec): spec.saved(state["params"]), files.OPTIMIZER_FILE: slots | {files.STEP: state["step"]}}


def save(state: Mapping[str, Any], spec: StepSpec, directory: Path) -> None:
    """Write a state into a directory."""
    for file, arrays in _files(state, spec).items():
        write(directory / file, arrays, arrays.__getitem__)


def save_shards(state: Mapping[str, Any], spec: StepSpec, directory: Path) -> None:
    """Write the parts of a state that this process's devices hold; of equal copies only the first one."""
    for file, arrays in _files(state, spec).items():
        _write_slices(directory, file, arrays)


def _write_slices(directory: Path, file: str, arrays: Mapping[str, jax.Array]) -> None:
    plan: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    sources: dict[str, tuple[jax.Array, int | None]] = {}
    for key, x in arrays.items():
        for shard in (shard for shard in x.addressable_shards if shard.replica_id == 0):
            starts = [side.indices(length)[0] for side, length in zip(shard.index, x.shape, strict=True)]
            for stored, layer in _stored_names(key, x):
                first_axis = 0 if layer is None else 1  # a stack is not split by layers
                size = shard.data.shape[first_axis:]
                name = slice_name(stored, starts[first_axis:], size, x.shape[first_axis:])
                plan[name], sources[name] = (np.dtype(x.dtype), size), (shard.data, layer)

    def fetch(name: str) -> np.ndarray:
        part, layer = sources[name]
        return _fetched(np.asarray(part), layer)

    write_shard(directory, file, (jax.process_index(), jax.process_count()), plan, fetch)


_Read = Callable[[str, Index], np.ndarray]
"""Reads a part of a tensor by its name in the file."""


def _placed(read: _Read, name: str, abstract: Any, sharding: Any) -> jax.Array:
    """The array of a flat name, in the shape and dtype of ``abstract``; a process reads its devices' parts."""
    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # only the type allows it
        if not name.startswith("layers."):
            return read(name, (*index, ...)).astype(abstract.dtype, copy=False)
        # Filled and cast layer by layer, so that the whole stack exists only once.
        size = [len(range(*side.indices(length))) for side, length in zip(index, abstract.shape, strict=True)]
        stack = np.empty(size, abstract.dtype)
        layers, part_of_layer = index[0], index[1:]
        for i, stored in enumerate(unstacked(name, abstract.shape[0])[layers]):
            stack[i] = read(stored, (*part_of_layer, ...))
        return stack

    return jax.make_array_from_callback(abstract.shape, sharding, part)


def _reader(file: files.CheckpointFile, arrays: Mapping[str, Any], slot: str) -> _Read:
    """A function that reads tensors of one slot (empty: the weights), and checks their shapes and dtypes."""
    expected = {stored: (x.shape[1:] if name.startswith("layers.") else x.shape, np.dtype(x.dtype))
                for name, x in arrays.items() for stored in unstacked(name, x.shape[0] if x.shape else 0)}

    def read(stored: str, index: Index) -> np.ndarray:
        shape, dtype = expected[stored]
        return file.read(f"{slot}.{stored}" if slot else stored, shape, dtype, index)

    return read


def restore(directory: Path, spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
            base: Callable[[], Params]) -> dict[str, Any]:
    """The state that `save` wrote, on any mesh.

    ``abstract``: the state as shapes and dtypes; ``base`` gives the frozen weights, which a checkpoint of adapters does
    not have. Raises `RecordError` for what is missing, damaged, or of another shape or dtype.
    """
    params = saved_weights(directory, spec, abstract["params"], shardings["params"])
    optimizer = files.CheckpointFile(directory, files.OPTIMIZER_FILE)
    if spec.lora:
        params |= spec.frozen(base())
    moments: dict[str, dict[str, jax.Array]] = {}
    for slot, tree in abstract["moments"].items():
        read = _reader(optimizer, tree, slot)
        moments[slot] = {name: _placed(read, name, x, shardings["moments"][slot][name]) for name, x in tree.items()}
    step = _placed(_reader(optimizer, {files.STEP: abstract["step"]}, ""), files.STEP, abstract["step"],
                   shardings["step"])
    return {"params": unflatten_params(params), "moments": moments, "step": step}


def saved_weights(directory: Path, spec: StepSpec, abstract: Params, shardings: Params) -> dict[str, jax.Array]:
    """The flat weights of a checkpoint, or only its adapters. Raises `RecordError` as `restore`."""
    saved, shardings = spec.saved(abstract), flatten_params(shardings)
    read = _reader(files.CheckpointFile(directory, weights_file(spec)), saved, "")
    return {name: _placed(read, name, x, shardings[name]) for name, x in saved.items()}


def load_params(directory: Path, spec: StepSpec, abstract: Params, shardings: Params, seed: int) -> Params:
    """Parameters from Hugging Face's format, quantized one by one, and new adapters. Raises as `model_weights`."""
    source = model_weights(directory, spec.shape)
    shardings = flatten_params(shardings)
    params: dict[str, Any] = {}
    lora = spec.lora
    if lora:
        # On the devices and with their shardings, so no device ever has all adapters.
        make = jax.jit(lambda number: init_adapters(number, lora, spec.shape),
                       out_shardings={name: shardings[name] for name in adapter_shapes(lora, spec.shape)})
        params |= make(np.uint32(seed))
    for name, x in flatten_params(abstract).items():
        if name.endswith(f".{CODES}"):
            stem = name.removesuffix(CODES)
            codes, scales = _quantized(source.read, f"{stem}weight", spec)
            for key, array in ((name, codes), (f"{stem}{ABSMAX}", scales)):
                params[key] = jax.make_array_from_callback(array.shape, shardings[key], array.__getitem__)
        # Scales are read with their codes, and adapters are made above.
        elif name not in params and not name.endswith(f".{ABSMAX}"):
            params[name] = _placed(source.read, name, x, shardings[name])
    return unflatten_params(params)


def _quantized(read: Callable[[str], np.ndarray], name: str, spec: StepSpec) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of one stacked projection. Weights are rounded to ``precision.parameters`` first."""
    layers = layer_numbers(name, spec.shape.layers)
    codes_shape, scales_shape = stored_shapes(layer_shapes(spec.shape, layers[0])[layer_tensor(name)])
    codes = np.empty((len(layers), *codes_shape), np.uint8)
    scales = np.empty((len(layers), *scales_shape), np.float32)
    for i, tensor in enumerate(unstacked(name, len(layers))):
        codes[i], scales[i] = quantize(np.asarray(read(tensor)).astype(spec.parameter_dtype))
    return codes, scales


def export(params: Params, spec: StepSpec, directory: Path) -> None:
    """Write merged weights and ``config.json`` into an existing directory, and adapters alone into ``adapter/``."""
    tensors = flatten_params(params)
    shapes = parameter_shapes(spec.shape, spec.parameter_dtype)
    write(directory / files.MODEL_FILE, shapes,
          lambda name: _full(tensors, name, shapes[name].shape[-1], shapes[name].dtype))
    dtype = str(next(iter(shapes.values())).dtype)
    if jax.process_index() == 0:
        targets = [name.rpartition(".")[2] for name in spec.lora.targets] if spec.lora else []
        files.write_configs(directory, to_hf_config(spec.shape) | {"dtype": dtype},
                            spec.lora.method if spec.lora else FULL, targets)
    if spec.lora:
        adapters = spec.trained(params)
        write(directory / files.ADAPTER_FOLDER / files.ADAPTER_FILE, adapters, adapters.__getitem__)


def _full(tensors: dict[str, jax.Array], name: str, inner: int, dtype: Any) -> jax.Array:
    """A stacked weight, dequantized and with its adapter added."""
    stem = name.removesuffix("weight")
    own = {key: tensors[stem + key] for key in ("weight", *NF4_TENSORS, *ADAPTER) if stem + key in tensors}
    if own.keys() <= {"weight"}:
        return tensors[name]
    scale = tensors.get(name.removesuffix(layer_tensor(name)) + SCALE)
    # Compiled, so that temporary arrays are freed early and split arrays stay split.
    return jax.jit(partial(_combined, inner=inner, dtype=dtype))(own, scale)


def _combined(tensors: dict[str, jax.Array], scale: jax.Array | None, inner: int, dtype: Any) -> jax.Array:
    if CODES in tensors:
        # Layer by layer, because the product of codes and scales is float32.
        quantized = {key: tensors[key] for key in NF4_TENSORS}
        weight = jax.lax.map(lambda layer: dequantize(layer[CODES], layer[ABSMAX], inner, dtype).T, quantized)
    else:
        weight = tensors["weight"]
    if scale is None or ADAPTER_A not in tensors:
        return weight
    return merged(weight, tensors[ADAPTER_A], tensors[ADAPTER_B], scale, dtype)
