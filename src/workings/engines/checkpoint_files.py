"""Files of checkpoints and exports that all engines share, in the formats of transformers and peft.

Only the text part of a multimodal model is trained. Its other weights are not loaded; they are merged into an export.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.method import AdapterFields, FullConfig
from workings.engines.safetensors_file import WHOLE, Index, StoredTensors, TensorFile, open_tensors, write_tensors
from workings.engines.weight_files import model_weights
from workings.errors import RecordError
from workings.models.json_file import read_object, write_object
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import PEFT_PREFIX, tensor_shapes

MODEL_FILE, ADAPTER_FILE, OPTIMIZER_FILE = "model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"
CONFIG, ADAPTER_CONFIG, ADAPTER_FOLDER = "config.json", "adapter_config.json", "adapter"
STEP = "step"
"""Tensor with the number of updates so far, in the file with the optimizer's tensors ``SLOT.NAME``."""
IN_TEXT, IN_FULL_MODEL = f"{PEFT_PREFIX}model.", f"{PEFT_PREFIX}model.language_model."
"""Prefixes of peft's names for a tensor of the text part: in the text model, and in the whole model."""
PROCESSORS = "*processor_config.json"
"""Files with the settings of image and sound processors."""


class CheckpointFile:
    """A file of a checkpoint, or its shards. Raises `RecordError` if they are missing or damaged."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = open_tensors(directory / name)
        self._names = set(self._file.names())

    def read(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], index: Index = WHOLE) -> np.ndarray:
        """A tensor of this shape and format, or the part ``index`` of it. Raises `RecordError` if there is none."""
        if name not in self._names:
            raise RecordError(f"{self._file.path} has no tensor {name}")
        stored_dtype, stored_shape = self._file.dtype(name), self._file.shape(name)
        if (stored_dtype, stored_shape) != (dtype, tuple(shape)):
            raise RecordError(f"{self._file.path}: {name} is {stored_dtype} {stored_shape}, this run needs {dtype} "
                              f"{tuple(shape)}")
        return self._file.read(name, index)


def adapter_config(method: AdapterFields, targets: Sequence[str]) -> dict[str, Any]:
    """Content of ``adapter_config.json``; ``targets``: names of the projections, such as ``q_proj``."""
    return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": method.rank, "lora_alpha": method.alpha,
            "lora_dropout": method.dropout, "bias": "none", "fan_in_fan_out": False,
            "use_rslora": method.rank_stabilized, "use_dora": False, "inference_mode": True,
            "target_modules": list(dict.fromkeys(targets))}


def write_configs(directory: Path, config: Mapping[str, Any], method: FullConfig | AdapterFields,
                  targets: Sequence[str] = ()) -> None:
    """Write ``config.json`` of an export and, for adapters, `adapter_config` into a new folder ``adapter``."""
    write_object(directory / CONFIG, config)
    if not isinstance(method, FullConfig):
        (directory / ADAPTER_FOLDER).mkdir()
        write_object(directory / ADAPTER_FOLDER / ADAPTER_CONFIG, adapter_config(method, targets))


@dataclass(frozen=True, kw_only=True)
class NonTextWeights:
    """Summary of the tensors of a multimodal model that are not part of its text model."""

    architecture: str
    """Class of the whole model in transformers."""
    parts: tuple[str, ...]
    """Names of the parts, such as ``vision_tower``."""
    tensors: int
    size: int
    """Bytes of all tensors."""

    def to_json(self) -> dict[str, Any]:
        """Entry of a run's manifest."""
        return {"architecture": self.architecture, "parts": list(self.parts), "tensors": self.tensors,
                "bytes": self.size}


def find_non_text_weights(directory: Path, shape: ModelShape) -> NonTextWeights | None:
    """The non-text weights of the model in a folder; None for a text model."""
    config = read_object(directory / CONFIG)
    if config.get("model_type") not in family_of(shape).multimodal:
        return None
    others = model_weights(directory, shape).others()
    # `model.vision_tower.encoder.…` and, as older files write it, `vision_tower.…`.
    parts = {name.removeprefix("model.").partition(".")[0] for name in others}
    return NonTextWeights(
        architecture=", ".join(config.get("architectures") or [config["model_type"]]), parts=tuple(sorted(parts)),
        tensors=len(others), size=sum(prod(file.shape(name)) * file.dtype(name).itemsize
                                      for name, file in others.items()))


def merge_non_text_weights(text: Path, base: Path, shape: ModelShape) -> None:
    """Turn the export of a text model in ``text`` into the whole model: ``base`` with the trained text weights."""
    whole = model_weights(base, shape)
    trained = TensorFile(text / MODEL_FILE)
    sources: Sources = {whole.names[name]: (trained, name) for name in tensor_shapes(shape)}
    sources |= {name: (file, name) for name, file in whole.others().items()}
    _replace_tensors(text / MODEL_FILE, sources)
    dtype, config = read_object(text / CONFIG)["dtype"], read_object(base / CONFIG)
    config["text_config"] = config["text_config"] | {"dtype": dtype}
    write_object(text / CONFIG, config | {"dtype": dtype})
    # Programs that load the whole model look for the settings of images and sound next to its weights.
    for path in base.glob(PROCESSORS):
        shutil.copyfile(path, text / path.name)
    if (text / ADAPTER_FOLDER).is_dir():
        _rename_adapters(text / ADAPTER_FOLDER)


Sources = dict[str, tuple[StoredTensors, str]]
"""Tensors of a new file by name: the file that each is copied from, and its name there."""


def _replace_tensors(path: Path, sources: Sources) -> None:
    """Replace a file by one with these tensors."""
    combined = path.with_name(f".{path.name}")

    def read(name: str) -> np.ndarray:
        file, stored = sources[name]
        return file.read(stored)

    write_tensors(combined, {name: (file.dtype(stored), file.shape(stored))
                             for name, (file, stored) in sources.items()}, read)
    combined.replace(path)


def _rename_adapters(adapter: Path) -> None:
    """Rename the text model's adapters to the names that peft and vLLM look for in the whole model."""
    file = TensorFile(adapter / ADAPTER_FILE)
    sources: Sources = {IN_FULL_MODEL + name.removeprefix(IN_TEXT): (file, name) for name in file.names()}
    _replace_tensors(adapter / ADAPTER_FILE, sources)
    config = read_object(adapter / ADAPTER_CONFIG)
    # A plain list would also match the vision and audio towers, whose projections have the same names.
    config["target_modules"] = rf"model\.language_model\.layers\..*\.({'|'.join(sorted(config['target_modules']))})"
    write_object(adapter / ADAPTER_CONFIG, config)
