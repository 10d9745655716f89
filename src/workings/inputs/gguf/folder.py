"""Converts a GGUF file once into a folder in Hugging Face's format.

The folder is kept in the cache under the SHA-256 of the file and the version of the conversion. Matrices are
dequantized to bfloat16; nothing is rounded twice.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from workings.engines.safetensors_file import write_tensors
from workings.hardware.machine import cache_directory
from workings.hints import typed_path
from workings.inputs.gguf.sources import GgufSource
from workings.models.gguf.reader import UNQUANTIZED, GgufFile
from workings.models.gguf.tokenizer import read_tokenizer
from workings.models.json_file import write_object
from workings.models.registry import find_family
from workings.models.shapes import to_hf_config
from workings.models.weights import tensor_shapes
from workings.record import atomic
from workings.record.digest import CHUNK_BYTES, chunks
from workings.record.storage import storage

CONVERSION = 1
"""Version of the conversion: a new version makes new folders."""
ORIGIN_FILE = "gguf_origin.json"
"""File in a converted folder that names its GGUF file."""
SCHEMA = "gguf_origin/1"
BF16 = np.dtype(ml_dtypes.bfloat16)
_QUANTIZATION = re.compile(r"[-._](?:I?Q\d\w*|BF16|F16|F32)$", re.IGNORECASE)
"""Usual end of a file's name before `.gguf`."""


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A converted GGUF file."""

    directory: Path
    """Folder in Hugging Face's format."""
    sha256: str
    """SHA-256 of the GGUF file."""


def converted(source: GgufSource) -> Converted:
    """The folder of a GGUF file; it is converted if that has not been done yet, and its licence is shown then.

    Raises:
        RequestError: the package `gguf` is missing, or the file is damaged or unsupported.
        StorageError: the cache cannot be written.
    """
    sha256 = _digest(source.files, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in source.files))
    name = _QUANTIZATION.sub("", Path(source.name).stem) or source.name
    directory = cache_directory() / "gguf" / f"{sha256}-{CONVERSION}" / name
    if not directory.is_dir():
        with storage(directory, "convert to"):
            directory.parent.mkdir(parents=True, exist_ok=True)
            _convert(source, sha256, name, directory)
    return Converted(directory=directory, sha256=sha256)


def origin_facts(directory: Path) -> dict[str, Any]:
    """A converted folder's facts about its GGUF file, for the record; empty for any other folder."""
    file = directory / ORIGIN_FILE
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


@cache
def _digest(files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> str:
    """SHA-256 of files as one; ``stamps``: their sizes and times, so that a changed file is read again."""
    del stamps
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            for chunk in chunks(stream):
                digest.update(chunk)
    return digest.hexdigest()


def _convert(source: GgufSource, sha256: str, name: str, directory: Path) -> None:
    # In the folder's parent, so that the rename stays within one file system. Another process may do the same at the
    # same time: equal files give equal folders, and the first one stays.
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".converting-") as place, joined(source) as file:
        model, folder = GgufFile(file, source.said), Path(place) / name
        folder.mkdir()
        origin = _origin(source, model, sha256, name)
        sys.stderr.write(f"{source.said}: {origin['what']}. Licence: {origin['licence']}. "
                         f"Converted once into {typed_path(directory)}\n")
        _write(source, model, folder, origin)
        atomic.sync_tree(folder)
        try:
            folder.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise


@contextmanager
def joined(source: GgufSource) -> Iterator[Path]:
    """The GGUF file, joined if it comes in pieces."""
    if len(source.files) == 1:
        yield source.files[0]
        return
    with tempfile.TemporaryDirectory(dir=cache_directory() / "gguf", prefix=".joining-") as place:
        whole = Path(place) / source.name
        with whole.open("wb") as written:
            for part in source.files:
                with part.open("rb") as stream:
                    shutil.copyfileobj(stream, written, CHUNK_BYTES)
        yield whole


def _origin(source: GgufSource, model: GgufFile, sha256: str, name: str) -> dict[str, Any]:
    quantization = model.quantization
    done = "converted" if quantization in UNQUANTIZED else "dequantized"
    known = find_family(model.shape.family).licence
    said = [str(text) for text in (model.header.get("general.license.name"), model.header.get("general.license"),
                                   source.licence, known) if text]
    return {"schema": SCHEMA, "what": f"{quantization} of {name}, {done} to bf16", "file": source.name,
            "sha256": sha256, "quantization": quantization, "conversion": CONVERSION,
            "name": str(model.header.get("general.name", name)),
            # The file and its package may name the same licence in other letters.
            "licence": ", ".join({text.lower(): text for text in said}.values()) or "not named in the file",
            **({"packages": list(source.packages)} if source.packages else {})}


def _write(source: GgufSource, model: GgufFile, folder: Path, origin: dict[str, Any]) -> None:
    files = read_tokenizer(model.header)
    write_object(folder / "config.json", to_hf_config(model.shape) | files.special_ids | {"dtype": "bfloat16"})
    write_object(folder / "generation_config.json", files.special_ids)
    (folder / "tokenizer.json").write_text(files.tokenizer, encoding="utf-8")
    write_object(folder / "tokenizer_config.json", files.settings | {"model_max_length": model.shape.context})
    write_object(folder / ORIGIN_FILE, origin)
    for file in source.terms:
        shutil.copyfile(file, folder / file.name)
    if not source.terms:
        (folder / "NOTICE").write_text(
            f"The weights in this folder were made of {source.name} (SHA-256 {origin['sha256']}).\n"
            f"Licence as far as it is named: {origin['licence']}.\n"
            "No file with its terms came with it.\n", encoding="utf-8")
    write_tensors(folder / "model.safetensors",
                  {name: (BF16, size) for name, size in tensor_shapes(model.shape).items()},
                  lambda name: model.tensor(name).astype(BF16), {"format": "pt"})
