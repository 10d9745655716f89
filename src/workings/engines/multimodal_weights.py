"""Multimodal models: only the text part is trained; the other weights are skipped on load and merged into an export."""

import shutil
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from workings.engines import checkpoint_files as files
from workings.engines.safetensors_file import StoredTensors, TensorFile, write_tensors
from workings.engines.weight_files import model_weights
from workings.models.json_file import read_object
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import PEFT_PREFIX, tensor_shapes

IN_TEXT, IN_FULL_MODEL = f"{PEFT_PREFIX}model.", f"{PEFT_PREFIX}model.language_model."
"""Prefix of peft's names for a tensor of the text part alone, and for the same tensor of the whole model."""
PROCESSORS = "*processor_config.json"
"""Files with the settings of image and sound processors."""


@dataclass(frozen=True, kw_only=True)
class NonTextWeights:
    """Summary of the tensors of a multimodal model that are not part of its text model."""

    architecture: str
    """Class of the whole model in transformers."""
    parts: tuple[str, ...]
    """Parts of the model that the tensors belong to, such as ``vision_tower``."""
    tensors: int
    size: int
    """Bytes."""

    def to_json(self) -> dict[str, Any]:
        """Entry of a run's manifest."""
        return {"architecture": self.architecture, "parts": list(self.parts), "tensors": self.tensors,
                "bytes": self.size}


def find_non_text_weights(directory: Path, shape: ModelShape) -> NonTextWeights | None:
    """The non-text weights of the model in a folder; None where the folder has a text model only.

    Raises:
        RequestError, RecordError: the folder does not hold a model of this shape.
    """
    config = _config(directory)
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

    Args:
        text: folder with ``model.safetensors`` and ``config.json`` of the text model, and perhaps ``adapter/``; all are
            replaced.
        base: folder of the whole model that training started from.
        shape: of the text model.
    """
    old = model_weights(base, shape)
    trained, others = TensorFile(text / files.MODEL_FILE), old.others()
    # Under the whole model's names, in the order of its files; tensors are copied one at a time.
    stored: dict[str, tuple[StoredTensors, str]] = {
        old.stored_name(name): (trained, name) for name in tensor_shapes(shape)}
    stored |= {name: (file, name) for name, file in others.items()}
    combined = text / f".{files.MODEL_FILE}"
    write_tensors(combined, {name: (file.dtype(own), file.shape(own)) for name, (file, own) in stored.items()},
                  lambda name: stored[name][0].read(stored[name][1]), files.METADATA)
    # Read now, because the text model's configuration is replaced below.
    dtype = _config(text)["dtype"]
    combined.replace(text / files.MODEL_FILE)
    config = _config(base)
    config["text_config"] = config["text_config"] | {"dtype": dtype}
    files.write_json(text / files.CONFIG, config | {"dtype": dtype})
    # Programs that load the whole model look for the settings of images and sound next to its weights.
    for path in base.glob(PROCESSORS):
        shutil.copyfile(path, text / path.name)
    if (text / files.ADAPTER_FOLDER).is_dir():
        _rename_adapters(text / files.ADAPTER_FOLDER)


def _rename_adapters(adapter: Path) -> None:
    """Rename the text model's adapters to the names that peft and vLLM look for in the whole model."""
    file = TensorFile(adapter / files.ADAPTER_FILE)
    own = {IN_FULL_MODEL + name.removeprefix(IN_TEXT): name for name in file.names()}
    renamed = adapter / f".{files.ADAPTER_FILE}"
    write_tensors(renamed, {name: (file.dtype(old), file.shape(old)) for name, old in own.items()},
                  lambda name: file.read(own[name]), files.METADATA)
    renamed.replace(adapter / files.ADAPTER_FILE)
    config = read_object(adapter / files.ADAPTER_CONFIG)
    # A plain list would also match the vision and audio towers, whose projections have the same names.
    config["target_modules"] = rf"model\.language_model\.layers\..*\.({'|'.join(sorted(config['target_modules']))})"
    files.write_json(adapter / files.ADAPTER_CONFIG, config)


def _config(directory: Path) -> dict[str, Any]:
    return read_object(directory / files.CONFIG)

