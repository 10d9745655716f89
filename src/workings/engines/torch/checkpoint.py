"""State to safetensors and back, one tensor at a time: the same files, names and shapes as the JAX engine writes."""

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
    """A tensor on the host; NumPy's own bfloat16 comes from ml_dtypes."""
    here = x.detach().cpu().contiguous()
    if here.dtype == torch.bfloat16:
        # `numpy()` refuses bfloat16, so the bits go across as integers, without a copy.
        return here.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return here.numpy()


def to_tensor(x: np.ndarray) -> Tensor:
    """The way back; the array is copied, because a mapped file cannot be written to."""
    own = np.array(x)
    if own.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(own.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy format of the same numbers."""
    return to_numpy(torch.empty(0, dtype=dtype)).dtype


def write(path: Path, tensors: Mapping[str, Tensor], make: Callable[[str], Tensor] | None = None) -> None:
    """Write tensors one by one; parts that several processes hold are gathered, and the first process writes.

    With ``make``, of ``tensors`` only shape and format are read; it gives a tensor when its turn has come.
    """
    plan = {name: (numpy_dtype(x.dtype), tuple(x.shape)) for name, x in tensors.items()}
    full_tensor = make or (lambda name: gathered(tensors[name]))
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_tensors(path, plan, lambda name: to_numpy(full_tensor(name)))
        return
    for name in plan:  # take part, in the same order
        full_tensor(name)


def _weights_file(spec: TorchSpec) -> str:
    return files.MODEL_FILE if isinstance(spec.request.method, FullConfig) else files.ADAPTER_FILE


def _saved(spec: TorchSpec, state: State) -> dict[str, Tensor]:
    """The weights of a checkpoint: all of them, those that nothing trains included; of adapters those alone."""
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
    """Write this process's part of a state; of equal parts the first process writes."""
    for file, tensors in _files(spec, state).items():
        _write_slices(spec.mesh, directory, file, tensors)


def _write_slices(mesh: ProcessMesh, directory: Path, file: str, tensors: Mapping[str, Tensor]) -> None:
    own = dict[str, Tensor]()
    for name, x in tensors.items():
        rows, part = own_rows(x), local(x)
        start = [rows.start if rows else 0, *[0] * (x.ndim - 1)]
        # A tensor with fewer rows than there are processes has no part in the last ones, and all copies but the
        # first have the same parts.
        if (rows and part.numel() and mesh.rank < mesh.fsdp) or (not rows and mesh.rank == 0):
            own[slice_name(name, start, tuple(part.shape), tuple(x.shape))] = part
    write_shard(directory, file, (mesh.rank, mesh.processes),
                {key: (numpy_dtype(x.dtype), tuple(x.shape)) for key, x in own.items()},
                lambda name: to_numpy(own[name]))


def _read(file: files.CheckpointFile, name: str, like: Tensor) -> Tensor:
    """This process's part of a tensor of a checkpoint, which has the shape and format of ``like``."""
    rows = own_rows(like)
    return to_tensor(file.read(name, like.shape, numpy_dtype(like.dtype), WHOLE if rows is None else (rows, ...)))


@torch.no_grad()
def read_saved(spec: TorchSpec, directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Fill weights from a checkpoint. Raises `RecordError` as `restore`."""
    file = files.CheckpointFile(directory, _weights_file(spec))
    for name, weight in weights.items():
        # Shapes are compared whole; each process reads its rows, so any number of processes can resume.
        local(weight).copy_(_read(file, name, weight))


@torch.no_grad()
def restore(spec: TorchSpec, state: State, directory: Path) -> State:
    """Fill a state with what `save` wrote. Raises `RecordError` for what is missing, damaged or of another form."""
    read_saved(spec, directory, _saved(spec, state))
    file = files.CheckpointFile(directory, files.OPTIMIZER_FILE)
    for slot, tree in state.moments.items():
        for name, x in tree.items():
            distributed = as_split(x, slot, state.trained[name])
            x.copy_(_read(file, f"{slot}.{name}", distributed))
    state.step = int(_read(file, files.STEP, torch.empty((), dtype=torch.int32)))
    return state


def load_weights(spec: TorchSpec, model: nn.Module, directory: Path) -> None:
    """Fill a model from a directory in Hugging Face's format. Raises `RequestError` for that of another model."""
    source, weights = model_weights(directory, spec.shape), base_weights(model)
    # In the order of the shapes and not of the file: every process must read, and communicate, alike.
    for name in tensor_shapes(spec.shape):
        store_weight(weights[name], to_tensor(source.read(name)))


def export(spec: TorchSpec, state: State, directory: Path) -> None:
    """Weights and ``config.json`` as transformers reads them; adapters are merged, and also written separately.

    ``adapter/`` belongs on the weights that training started from, not on the merged ones.
    """
    release_gathered(state.root)
    if spec.mesh.rank == 0:
        config = to_hf_config(spec.shape) | {"dtype": dtype_name(spec.parameter_dtype)}
        if not spec.shape.verified:  # its own file may name the class of a multimodal model, which is not written
            config["architectures"] = [type(state.model).__name__]
        files.write_configs(directory, config, spec.request.method,
                            () if isinstance(spec.request.method, FullConfig) else spec.request.method.target_modules)
    weights, layers = base_weights(state.model), lora_layers(state.model)
    sizes = {name: torch.empty(size, dtype=spec.parameter_dtype, device="meta")
             for name, size in tensor_shapes(spec.shape).items()}
    # Gathering takes every process, so all of them enter both writes.
    write(directory / files.MODEL_FILE, {name: sizes[name] for name in weights},
          lambda name: merged(spec, weights[name], layers.get(name.removesuffix(".weight"))))
    if not isinstance(spec.request.method, FullConfig):
        write(directory / files.ADAPTER_FOLDER / files.ADAPTER_FILE, state.trained)
