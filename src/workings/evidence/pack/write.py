"""Write a pack: a zip with sorted names, one fixed time and one fixed mode, so that equal records give equal bytes."""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workings.errors import RecordError
from workings.record import atomic
from workings.record.canonical import line
from workings.record.digest import bytes_digest, chunks
from workings.record.layout import SEAL, SUMS
from workings.record.seal import NO_ORIGIN, sums_text
from workings.record.seal import SCHEMA as SEAL_SCHEMA
from workings.record.storage import storage

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The zip format's first moment."""
# Texts are small compared to tensors, and a fixed level is part of equal bytes.
LEVEL = 9
# zipfile writes a header before it knows the size, and from 2 GiB on the header needs its 64-bit form.
LARGE_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class FileOnDisk:
    """A file of a sealed unit."""

    path: Path
    size: int
    sha256: str
    """Sealed digest; empty for sums and seals themselves."""


def seal_documents(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The pack's own files with their sums and seal."""
    sums = sums_text({name: bytes_digest(data) for name, data in documents.items()})
    seal = line({"schema": SEAL_SCHEMA, "unit": "pack", "status": "complete", "root": bytes_digest(sums),
                 "made_from": NO_ORIGIN})
    return {**documents, SUMS: sums, SEAL: seal}


def write_zip(target: Path, documents: Mapping[str, bytes], files: Mapping[str, FileOnDisk]) -> None:
    """Write the zip, atomically; bytes that changed since they were sealed are refused.

    Tensors are stored, texts deflated. With another build of zlib the deflated bytes may differ; names, contents and
    root digests do not.

    Raises:
        RecordError: a file differs from its seal.
        StorageError: the disk is full, read-only or failing.
    """
    if both := sorted(documents.keys() & files.keys()):
        raise RecordError(f"{both[0]} would be in the pack twice")

    def fill(stream: object) -> None:
        with zipfile.ZipFile(stream, "w") as archive:  # type: ignore[call-overload]
            # Sorted, because the order of entries is part of the bytes.
            for name in sorted({*documents, *files}):
                if name in documents:
                    archive.writestr(_info(name), documents[name], zipfile.ZIP_DEFLATED, LEVEL)
                else:
                    _copy(archive, name, files[name])

    with storage(target, "write"):
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_with(target, fill)


def _copy(archive: zipfile.ZipFile, name: str, file: FileOnDisk) -> None:
    digest = hashlib.sha256()
    info = _info(name)
    with file.path.open("rb") as source, archive.open(info, "w", force_zip64=file.size > LARGE_BYTES) as target:
        for chunk in chunks(source):
            # Digested while it is copied: the file is read once, and no change can slip in between check and copy.
            digest.update(chunk)
            target.write(chunk)
    # Raised inside the atomic write, so the unfinished zip is removed.
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise RecordError(f"{file.path}: not the file that was sealed")


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system = 3  # Unix, on every system: the mode below is read only then
    info.external_attr = (0o100644) << 16
    # Weights hardly shrink, and deflating gigabytes takes minutes.
    info.compress_type = zipfile.ZIP_STORED if name.endswith(".safetensors") else zipfile.ZIP_DEFLATED
    for name in ("_compresslevel", "compress_level"):  # the second one since Python 3.13
        if hasattr(info, name):
            setattr(info, name, LEVEL)
    return info
