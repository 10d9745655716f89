"""State to safetensors and back: Hugging Face's names, layers unstacked, one tensor at a time."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workings.engines.jax.optimizer import flat, nested
from workings.engines.safetensors_file import TensorFile, write_tensors
from workings.engines.weight_files import WeightFiles
from workings.errors import RecordError, RequestError
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.weights import layer_name, tensor_shapes

MODEL_FILE, OPTIMIZER_FILE, STEP = "model.safetensors", "optimizer.safetensors", "step"
Shardings = dict[str, Any]


def unstacked(name: str, layers: int) -> list[str]:
    """Hugging Face's names of a flat tensor: one, or one per layer for a stacked one."""
    if not name.startswith("layers."):
        return [name]
    return [layer_name(i, name.removeprefix("layers.")) for i in range(layers)]


def whole(x: jax.Array) -> np.ndarray:
    """An array on the host; in a run of several processes its parts are gathered first, so all of them must ask."""
    if x.is_fully_addressable:
        return np.asarray(x)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(x, tiled=True))


def _write(path: Path, arrays: Mapping[str, jax.Array], metadata: dict[str, str]) -> None:
    """Write flat arrays (keys may carry a ``slot|`` in front, which becomes ``slot.``)."""
    plan: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    source: dict[str, tuple[str, int]] = {}
    for key, x in arrays.items():
        slot, _, name = key.rpartition("|")
        stacked = name.startswith("layers.")
        for i, stored in enumerate(unstacked(name, x.shape[0] if stacked else 0)):
            full = f"{slot}.{stored}" if slot else stored
            plan[full] = (np.dtype(x.dtype), x.shape[1:] if stacked else x.shape)
            source[full] = (key, i if stacked else -1)
    held: dict[str, np.ndarray] = {}

    def fetch(full: str) -> np.ndarray:
        key, i = source[full]
        if key not in held:  # one stacked tensor on the host at a time
            held.clear()
            held[key] = whole(arrays[key])
        return held[key] if i < 0 else held[key][i]

    if jax.process_index() == 0:
        write_tensors(path, plan, fetch, metadata)
        return
    for full in plan:  # the other processes take part in gathering, in the same order, and write nothing
        fetch(full)


def save(state: dict[str, Any], directory: Path) -> None:
    """Write parameters, optimizer state and step count into an existing directory."""
    _write(directory / MODEL_FILE, flat(state["params"]), {"format": "pt"})
    slots = {f"{slot}|{name}": x for slot, tree in state["moments"].items() for name, x in tree.items()}
    _write(directory / OPTIMIZER_FILE, slots | {STEP: state["step"]}, {"format": "pt"})


_Described = jax.Array | jax.ShapeDtypeStruct
"""Whatever has the shape and dtype that a tensor of the state must have."""


def _stack(read: Callable[[str], np.ndarray], name: str, spec: _Described) -> np.ndarray:
    """One flat tensor from its file, cast to the state's dtype, layers stacked."""
    if not name.startswith("layers."):
        return np.asarray(read(name)).astype(spec.dtype, copy=False)
    out = np.empty(spec.shape, spec.dtype)
    for i, stored in enumerate(unstacked(name, spec.shape[0])):
        out[i] = read(stored)
    return out


def _put(array: np.ndarray, sharding: Any) -> jax.Array:
    """To its place on the mesh; every process hands over the shards of its own devices."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def _reader(file: TensorFile, spec: Mapping[str, _Described], slot: str) -> Callable[[str], np.ndarray]:
    """Reads by Hugging Face's name, checking shape and dtype against what the state needs."""
    expected = {stored: (x.shape[1:] if name.startswith("layers.") else x.shape, np.dtype(x.dtype))
                for name, x in spec.items() for stored in unstacked(name, x.shape[0] if x.shape else 0)}
    there = set(file.names())

    def read(stored: str) -> np.ndarray:
        full = f"{slot}.{stored}" if slot else stored
        if full not in there:
            raise RecordError(f"{file.path} has no tensor {full}")
        found = (file.shape(full), file.dtype(full))
        if found != expected[stored]:
            raise RecordError(f"{file.path}: {full} is {found[1]} {found[0]}, this run needs "
                              f"{expected[stored][1]} {expected[stored][0]}")
        return file.read(full)

    return read


def restore(directory: Path, abstract: dict[str, Any], shardings: dict[str, Any]) -> dict[str, Any]:
    """The state that `save` wrote, on any mesh.

    Args:
        directory: of one checkpoint.
        abstract: the state as shapes and dtypes (`jax.eval_shape` of its creation).
        shardings: a tree like it, of shardings.

    Raises:
        RecordError: a file or tensor is missing, damaged, or of another shape or dtype.
    """
    for name in (MODEL_FILE, OPTIMIZER_FILE):
        if not (directory / name).is_file():
            raise RecordError(f"{directory} has no {name}")
    model, optimizer = TensorFile(directory / MODEL_FILE), TensorFile(directory / OPTIMIZER_FILE)
    spec, places = flat(abstract["params"]), flat(shardings["params"])
    read = _reader(model, spec, "")
    params = {name: _put(_stack(read, name, x), places[name]) for name, x in spec.items()}
    moments: dict[str, dict[str, jax.Array]] = {}
    for slot, tree in abstract["moments"].items():
        read = _reader(optimizer, tree, slot)
        moments[slot] = {name: _put(_stack(read, name, x), shardings["moments"][slot][name])
                         for name, x in tree.items()}
    step = _reader(optimizer, {STEP: abstract["step"]}, "")(STEP)
    return {"params": nested(params), "moments": moments, "step": _put(step, shardings["step"])}


def load_params(directory: Path, shape: ModelShape, abstract: dict[str, Any],
                shardings: dict[str, Any]) -> dict[str, Any]:
    """Parameters from a directory in Hugging Face's format, cast to the state's dtype.

    Raises:
        RequestError: no config.json, another architecture or size than asked for, a missing shard or tensor.
    """
    config = directory / "config.json"
    if not config.is_file():
        raise RequestError(f"{directory} without config.json", "a directory in Hugging Face's format", "")
    found = from_hf_config(json.loads(config.read_text(encoding="utf-8")))
    if found != shape:
        raise RequestError(f"{config}: {found}", f"{shape}", "")
    files = WeightFiles(directory, tensor_shapes(shape))
    places = flat(shardings)
    return nested({name: _put(_stack(files.read, name, x), places[name]) for name, x in flat(abstract).items()})


def export(state: dict[str, Any], shape: ModelShape, directory: Path) -> None:
    """Weights and ``config.json`` as transformers reads them."""
    params = flat(state["params"])
    _write(directory / MODEL_FILE, params, {"format": "pt"})
    dtype = {"float32": "float32", "bfloat16": "bfloat16"}[str(next(iter(params.values())).dtype)]
    text = json.dumps(to_hf_config(shape) | {"dtype": dtype}, indent=2, sort_keys=True)
    if jax.process_index() == 0:
        (directory / "config.json").write_text(text + "\n", encoding="utf-8")
