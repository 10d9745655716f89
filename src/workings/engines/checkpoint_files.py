"""Files that both engines write and read alike: checkpoints, and exports as transformers and peft read them.

Of a multimodal model only the text part is trained; its other weights are skipped on load and merged into an export.
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
"""Tensor with the number of updates so far, next to the optimizer's slots (``SLOT.NAME``)."""
IN_TEXT, IN_FULL_MODEL = f"{PEFT_PREFIX}model.", f"{PEFT_PREFIX}model.language_model."
"""Prefix of peft's names for a tensor of the text part alone, and for the same tensor of the whole model."""
PROCESSORS = "*processor_config.json"
"""Files with the settings of image and sound processors."""


class CheckpointFile:
    """A file of a checkpoint, or its shards. Raises `RecordError` where they are missing or damaged."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = open_tensors(directory / name)
        self._names = set(self._file.names())

    def read(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], index: Index = WHOLE) -> np.ndarray:
        """A tensor of this shape and format, or the part ``index`` of it. Raises `RecordError` if there is none."""
        if name not in self._names:
            raise RecordError(f"{self._file.path} has no tensor {name}")
        actual, needed = (self._file.shape(name), self._file.dtype(name)), (tuple(shape), dtype)
        if actual != needed:
            raise RecordError(f"{self._file.path}: {name} is {actual[1]} {actual[0]}, this run needs {needed[1]} "
                              f"{needed[0]}")
        return self._file.read(name, index)


def adapter_config(method: AdapterFields, targets: Sequence[str]) -> dict[str, Any]:
    """Content of ``adapter_config.json`` for adapters of these projections, named by their last parts."""
    return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": method.rank, "lora_alpha": method.alpha,
            "lora_dropout": method.dropout, "bias": "none", "fan_in_fan_out": False,
            "use_rslora": method.rank_stabilized, "use_dora": False, "inference_mode": True,
            "target_modules": list(dict.fromkeys(targets))}


def write_configs(directory: Path, config: Mapping[str, Any], method: FullConfig | AdapterFields,
                  targets: Sequence[str] = ()) -> None:
    """Write ``config.json`` of an export and, with adapters, `adapter_config` into a new folder ``adapter``."""
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
    """Such as ``vision_tower``."""
    tensors: int
    size: int
    """Bytes."""

    def to_json(self) -> dict[str, Any]:
        """Entry of a run's manifest."""
        return {"architecture": self.architecture, "parts": list(self.parts), "tensors": self.tensors,
                "bytes": self.size}


def find_non_text_weights(directory: Path, shape: ModelShape) -> NonTextWeights | None:
    """The non-text weights of the model in a folder; None where the folder has a text model only."""
    config = read_object(directory / CONFIG)
    if config.get("model_type") not in family_of(shape).multimodal:
        return None
    others = model_weights(directory, shape).others()
    # `model.vision_tower.encoder.…` and, as older files write it, `vision_tower.…`.
    parts = {name.removeprefix("model.").partition(".")[0] for name in others}
    return NonTextWeights(architecture=", ".join(config.get("architectures") or [config["model_type"]]),
                     parts=tuple(sorted(parts)), tensors=len(others),
                     size=sum(prod(file.shape(name)) * file.dtype(name).itemsize for name, file in others.items()))


def merge_non_text_weights(text: Path, base: Path, shape: ModelShape) -> None:
    """Turn an exported text model into the whole model: the files of ``base`` with the trained text weights.

    The files in ``text`` (``model.safetensors``, ``config.json``, and ``adapter/`` if there is one) are replaced.
    """
    old = model_weights(base, shape)
    trained, others = TensorFile(text / MODEL_FILE), old.others()
    # Under the whole model's names, in the order of its files; tensors are copied one at a time.
    stored: dict[str, tuple[StoredTensors, str]] = {
        old.names[name]: (trained, name) for name in tensor_shapes(shape)}
    stored |= {name: (file, name) for name, file in others.items()}
    combined = text / f".{MODEL_FILE}"
    write_tensors(combined, {name: (file.dtype(own), file.shape(own)) for name, (file, own) in stored.items()},
                  lambda name: stored[name][0].read(stored[name][1]))
    # Read now, because the text model's configuration is replaced below.
    dtype = read_object(text / CONFIG)["dtype"]
    combined.replace(text / MODEL_FILE)
    config = read_object(base / CONFIG)
    config["text_config"] = config["text_config"] | {"dtype": dtype}
    write_object(text / CONFIG, config | {"dtype": dtype})
    # Programs that load the whole model look for the settings of images and sound next to its weights.
    for path in base.glob(PROCESSORS):
        shutil.copyfile(path, text / path.name)
    if (text / ADAPTER_FOLDER).is_dir():
        _rename_adapters(text / ADAPTER_FOLDER)


def _rename_adapters(adapter: Path) -> None:
    """Rename the text model's adapters to the names that peft and vLLM look for in the whole model."""
    file = TensorFile(adapter / ADAPTER_FILE)
    own = {IN_FULL_MODEL + name.removeprefix(IN_TEXT): name for name in file.names()}
    renamed = adapter / f".{ADAPTER_FILE}"
    write_tensors(renamed, {name: (file.dtype(old), file.shape(old)) for name, old in own.items()},
                  lambda name: file.read(own[name]))
    renamed.replace(adapter / ADAPTER_FILE)
    config = read_object(adapter / ADAPTER_CONFIG)
    # A plain list would also match the vision and audio towers, whose projections have the same names.
    config["target_modules"] = rf"model\.language_model\.layers\..*\.({'|'.join(sorted(config['target_modules']))})"
    write_object(adapter / ADAPTER_CONFIG, config)
