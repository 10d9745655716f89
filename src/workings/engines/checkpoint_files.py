"""Files that both engines write and read alike: checkpoints, and exports as transformers and peft read them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.method import AdapterFields
from workings.engines.safetensors_file import WHOLE, Index, open_tensors
from workings.errors import RecordError

MODEL_FILE, ADAPTER_FILE, OPTIMIZER_FILE = "model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"
CONFIG, ADAPTER_CONFIG, ADAPTER_FOLDER = "config.json", "adapter_config.json", "adapter"
STEP = "step"
"""Tensor with the number of updates so far, next to the optimizer's slots (``SLOT.NAME``)."""
METADATA = {"format": "pt"}
"""By it transformers knows which framework's layout a file has."""


class CheckpointFile:
    """A file of a checkpoint, or its shards. Raises `RecordError` where they are missing or damaged."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = open_tensors(directory / name)
        # Looked up once: a model has hundreds of tensors.
        self._names = set(self._file.names())

    def read(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], index: Index = WHOLE) -> np.ndarray:
        """A tensor of this shape and format, or the part ``index`` of it.

        Raises:
            RecordError: before bytes are read, where it is missing, or of another shape or format.
        """
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
            "use_rslora": method.rank_stabilized,
            "use_dora": False, "inference_mode": True, "target_modules": list(dict.fromkeys(targets))}


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write settings, sorted, so that the same model gives the same bytes."""
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
