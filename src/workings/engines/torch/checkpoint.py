"""Checkpoints in safetensors, read and written one tensor at a time: the JAX engine's files, names and shapes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from workings.config.method import FullConfig
from workings.engines import checkpoint_files as files
from workings.engines.safetensors_file import WHOLE, write_shard, write_tensors
from workings.engines.torch.lora import base_weights, lora_layers, merged, store_weight
from workings.engines.torch.sharding import ProcessMesh, as_split, gathered, local, own_rows, release_gathered
from workings.engines.torch.spec import TorchSpec, dtype_name
from workings.engines.torch.step import State
from workings.engines.weight_files import model_weights
from workings.models.shapes import to_hf_config
from workings.models.shards import slice_name
from workings.models.weights import tensor_shapes


def to_numpy(x: Tensor) -> np.ndarray:
    """A tensor as an array on the host."""
    on_host = x.detach().cpu().contiguous()
    if on_host.dtype == torch.bfloat16:  # unknown to `numpy()`
        return on_host.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return on_host.numpy()


def to_tensor(x: np.ndarray) -> Tensor:
    """An array, such as a part of a mapped file, as a tensor with its own memory."""
    own = np.array(x)
    if own.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(own.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy format of the same numbers."""
    return to_numpy(torch.empty(0, dtype=dtype)).dtype


def write(path: Path, tensors: Mapping[str, Tensor], make: Callable[[str], Tensor] | None = None) -> None:
    """Gather the parts of tensors and write them one by one, by the first process; every process must call it.

    ``make`` returns a whole tensor by its name, and ``tensors`` are then read for their formats and sizes only.
    """
    plan = {name: (numpy_dtype(x.dtype), tuple(x.shape)) for name, x in tensors.items()}
    make_whole = make or (lambda name: gathered(tensors[name]))
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_tensors(path, plan, lambda name: to_numpy(make_whole(name)))
        return
    for name in plan:
        make_whole(name)  # the first process cannot gather alone


def _weights_file(spec: TorchSpec) -> str:
    return files.MODEL_FILE if isinstance(spec.request.method, FullConfig) else files.ADAPTER_FILE


def _saved(spec: TorchSpec, state: State) -> dict[str, Tensor]:
    """The weights of a checkpoint: the adapters, or without them all weights, including frozen ones."""
    if not isinstance(spec.request.method, FullConfig):
        return dict(state.trained)
    return {name: x for name, x in base_weights(state.model).items() if isinstance(x, Tensor)}


def _files(spec: TorchSpec, state: State) -> dict[str, dict[str, Tensor]]:
    """Tensors of a checkpoint by file."""
    release_gathered(state.root)
    slots = {f"{slot}.{name}": as_split(x, slot, state.trained[name])
             for slot, tree in state.moments.items() for name, x in tree.items()}
    return {_weights_file(spec): _saved(spec, state),
            files.OPTIMIZER_FILE: slots | {files.STEP: torch.tensor(state.step, dtype=torch.int32)}}


def save(spec: TorchSpec, state: State, directory: Path) -> None:
    """Write a state into an existing directory."""
    for file, tensors in _files(spec, state).items():
        write(directory / file, tensors)


def save_shards(spec: TorchSpec, state: State, directory: Path) -> None:
    """Write this process's part of a state. Of equal parts the first process writes its own."""
    for file, tensors in _files(spec, state).items():
        _write_slices(spec.mesh, directory, file, tensors)


def _write_slices(mesh: ProcessMesh, directory: Path, file: str, tensors: Mapping[str, Tensor]) -> None:
    own = dict[str, Tensor]()
    for name, x in tensors.items():
        rows, part = own_rows(x), local(x)
        if rows is None:  # every process has the whole tensor
            writes = mesh.rank == 0
        else:  # the first copy writes, except for empty parts
            writes = mesh.rank < mesh.fsdp and part.numel() > 0
        if writes:
            start = [0 if rows is None else rows.start, *[0] * (x.ndim - 1)]
            own[slice_name(name, start, tuple(part.shape), tuple(x.shape))] = part
    write_shard(directory, file, (mesh.rank, mesh.processes),
                {key: (numpy_dtype(x.dtype), tuple(x.shape)) for key, x in own.items()},
                lambda name: to_numpy(own[name]))


def _read(file: files.CheckpointFile, name: str, like: Tensor) -> Tensor:
    """This process's part of a checkpoint's tensor, which has the shape and format of ``like``."""
    rows = own_rows(like)
    return to_tensor(file.read(name, like.shape, numpy_dtype(like.dtype), WHOLE if rows is None else (rows, ...)))


@torch.no_grad()
def read_saved(spec: TorchSpec, directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Fill weights from a checkpoint. Raises `RecordError` as `restore`."""
    file = files.CheckpointFile(directory, _weights_file(spec))
    for name, weight in weights.items():
        local(weight).copy_(_read(file, name, weight))


@torch.no_grad()
def restore(spec: TorchSpec, state: State, directory: Path) -> State:
    """Fill a state with what `save` wrote. Raises `RecordError` for what is missing, damaged or of another form."""
    read_saved(spec, directory, _saved(spec, state))
    file = files.CheckpointFile(directory, files.OPTIMIZER_FILE)
    for slot, tree in state.moments.items():
        for name, x in tree.items():
            x.copy_(_read(file, f"{slot}.{name}", as_split(x, slot, state.trained[name])))
    state.step = int(_read(file, files.STEP, torch.empty((), dtype=torch.int32)))
    return state


def load_weights(spec: TorchSpec, model: nn.Module, directory: Path) -> None:
    """Fill a model from a directory in Hugging Face's format. Raises `RequestError` if it has another model."""
    source, weights = model_weights(directory, spec.shape), base_weights(model)
    # Not in the order of the file: all processes must read in the same order.
    for name in tensor_shapes(spec.shape):
        store_weight(weights[name], to_tensor(source.read(name)))


def export(spec: TorchSpec, state: State, directory: Path) -> None:
    """Write weights and ``config.json`` as transformers reads them; every process must call it.

    Adapters are merged, and also written to ``adapter/``, for use on the weights that training started from.
    """
    release_gathered(state.root)
    method = spec.request.method
    if spec.mesh.rank == 0:
        config = to_hf_config(spec.shape) | {"dtype": dtype_name(spec.parameter_dtype)}
        if not spec.shape.verified:  # its own file may name a multimodal model's class
            config["architectures"] = [type(state.model).__name__]
        files.write_configs(directory, config, method, () if isinstance(method, FullConfig) else method.target_modules)
    weights, layers = base_weights(state.model), lora_layers(state.model)
    shapes = tensor_shapes(spec.shape)
    tensors = {name: torch.empty(shapes[name], dtype=spec.parameter_dtype, device="meta") for name in weights}
    write(directory / files.MODEL_FILE, tensors,
          lambda name: merged(spec, weights[name], layers.get(name.removesuffix(".weight"))))
    if not isinstance(method, FullConfig):
        write(directory / files.ADAPTER_FOLDER / files.ADAPTER_FILE, state.trained)
