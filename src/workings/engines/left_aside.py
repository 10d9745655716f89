"""A multimodal model whose text part is trained: what is left aside on load, and put back into an exported folder."""

import json
import shutil
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from workings.engines.safetensors_file import TensorFile, write_tensors
from workings.engines.weight_files import model_weights
from workings.models.json_file import read_object
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import tensor_shapes

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ADAPTER, ADAPTER_WEIGHTS, ADAPTER_CONFIG = "adapter", "adapter_model.safetensors", "adapter_config.json"
IN_TEXT, IN_FULL_MODEL = "base_model.model.model.", "base_model.model.model.language_model."
"""How peft's names begin for a tensor of the text part alone, and for the same tensor of the whole model."""
PROCESSORS = "*processor_config.json"
"""Files that say how images and sounds become numbers."""


@dataclass(frozen=True, kw_only=True)
class LeftAside:
    """The tensors of a multimodal model that its text part does not have."""

    architecture: str
    """The whole model's class in transformers."""
    parts: tuple[str, ...]
    """What the tensors belong to, such as ``vision_tower``."""
    tensors: int
    size: int
    """Bytes."""

    def as_json(self) -> dict[str, Any]:
        """What a run records."""
        return {"architecture": self.architecture, "parts": list(self.parts), "tensors": self.tensors,
                "bytes": self.size}


def find_left_aside(directory: Path, shape: ModelShape) -> LeftAside | None:
    """What training the text part leaves aside of the model in a folder; None where the folder holds text alone.

    Raises:
        RequestError, RecordError: the folder does not hold a model of this shape.
    """
    config = _config(directory)
    if config.get("model_type") not in family_of(shape).multimodal:
        return None
    others = model_weights(directory, shape).others()
    # `model.vision_tower.encoder.…` and, as older files write it, `vision_tower.…`.
    parts = {name.removeprefix("model.").partition(".")[0] for name in others}
    return LeftAside(architecture=", ".join(config.get("architectures") or [config["model_type"]]),
                     parts=tuple(sorted(parts)), tensors=len(others),
                     size=sum(prod(file.shape(name)) * file.dtype(name).itemsize for name, file in others.items()))


def put_back(text: Path, base: Path, shape: ModelShape) -> None:
    """Make a folder with an exported text part the whole model: as ``base``, with the text part's weights from here.

    Args:
        text: has ``model.safetensors`` and ``config.json`` of the text part, and perhaps ``adapter/``; all are
            replaced.
        base: the folder of the whole model that training started from.
        shape: of the text part.
    """
    old = model_weights(base, shape)
    trained, others = TensorFile(text / WEIGHTS), old.others()
    # Under the whole model's names, in the order of its files; tensors are copied one at a time.
    stored = {old.stored_name(name): (trained, name) for name in tensor_shapes(shape)}
    stored |= {name: (file, name) for name, file in others.items()}
    combined = text / f".{WEIGHTS}"
    write_tensors(combined, {name: (file.dtype(own), file.shape(own)) for name, (file, own) in stored.items()},
                  lambda name: stored[name][0].read(stored[name][1]), {"format": "pt"})
    dtype = _config(text)["dtype"]
    combined.replace(text / WEIGHTS)
    config = _config(base)
    config["text_config"] = config["text_config"] | {"dtype": dtype}
    text.joinpath(CONFIG).write_text(json.dumps(config | {"dtype": dtype}, indent=2, sort_keys=True) + "\n",
                                     encoding="utf-8")
    for path in base.glob(PROCESSORS):
        shutil.copyfile(path, text / path.name)
    if (text / ADAPTER).is_dir():
        _rename_adapters(text / ADAPTER)


def _rename_adapters(adapter: Path) -> None:
    """Rename adapters of the text part as peft and vLLM find them in the whole model, whose towers get none."""
    file = TensorFile(adapter / ADAPTER_WEIGHTS)
    own = {IN_FULL_MODEL + name.removeprefix(IN_TEXT): name for name in file.names()}
    renamed = adapter / f".{ADAPTER_WEIGHTS}"
    write_tensors(renamed, {name: (file.dtype(old), file.shape(old)) for name, old in own.items()},
                  lambda name: file.read(own[name]), {"format": "pt"})
    renamed.replace(adapter / ADAPTER_WEIGHTS)
    config = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    # A plain list would also meet the towers, which have projections of the same names.
    config["target_modules"] = rf"model\.language_model\.layers\..*\.({'|'.join(sorted(config['target_modules']))})"
    (adapter / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _config(directory: Path) -> dict[str, Any]:
    return read_object(directory / CONFIG)

