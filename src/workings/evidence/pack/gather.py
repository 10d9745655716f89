"""Collects the contents of a pack (files of sealed runs and their units, signatures, attempts), and writes its zip.

The zip has sorted names, one fixed time and one fixed mode, so that equal records give equal bytes.
"""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.attest.sign import unit_roots
from workings.evidence.pack.form import BY_DIGEST, RUNS, SAMPLES_SUFFIX, ExternalFile, may_be_external
from workings.record import atomic, attempts
from workings.record.canonical import line
from workings.record.digest import bytes_digest, chunks
from workings.record.layout import ATTEMPTS, ATTEST, EVALUATION_UNITS, SAMPLED, SEAL, SUMS
from workings.record.reader import RunRecord
from workings.record.seal import NO_ORIGIN, parse_sums, root_digest, sums_text, unit_kind
from workings.record.seal import SCHEMA as SEAL_SCHEMA
from workings.record.storage import storage

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The zip format's first moment."""
# zipfile writes a header before it knows the size, and from 2 GiB on the header needs its 64-bit form.
LARGE_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class FileOnDisk:
    """A file of a sealed unit."""

    path: Path
    size: int
    sha256: str
    """Sealed digest; empty for sums and seals themselves."""


@dataclass(kw_only=True)
class Contents:
    """Contents of a pack that come from its runs."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    """Runs by path in the pack, `runs/<name>`."""
    evaluations: dict[str, Path] = field(default_factory=dict)
    """Evaluations and samples that are in no run (of an untrained model, say), by path in the pack."""
    sealed_files: dict[str, FileOnDisk] = field(default_factory=dict)
    """Files that a run or evaluation seals, by path in the pack."""
    unsealed_files: dict[str, bytes] = field(default_factory=dict)
    """Files that none of them seals: attempts and signatures. The pack's own sums cover them."""
    units: dict[str, str] = field(default_factory=dict)
    """Root digests by path in the pack: of `runs/a`, its evaluation `runs/a/eval/items`, samples `runs/a-samples`."""
    external_files: list[ExternalFile] = field(default_factory=list)
    """Sealed files that the pack only names by their digest."""


def gather(paths: Sequence[Path], weights: str) -> Contents:
    """Collect the contents from these runs, with checkpoints' ``weights`` inside or by digest.

    Raises `RequestError` for a run that is not sealed or failed, and for two of one name; `RecordError` for a unit in a
    run that is not sealed.
    """
    contents = Contents()
    runs, evaluations = contents.runs, contents.evaluations
    for path in paths:
        kind, name = unit_kind(path), path.resolve().name
        pack_path = f"{RUNS}/{name}{SAMPLES_SUFFIX}" if kind == SAMPLED else f"{RUNS}/{name}"
        if pack_path in runs or pack_path in evaluations:
            raise RequestError(f"two runs are named {name}", "runs with different names", "")
        if kind in EVALUATION_UNITS:
            evaluations[pack_path] = path
            continue
        run = RunRecord.open(path)
        if run.status == "failed":
            raise RequestError(f"{path} failed: {run.manifest.status_reason}", "runs that did not fail",
                               "leave it out; the list of attempts names it all the same")
        runs[pack_path] = run
    if not runs:
        raise RequestError("there is no run to pack", "one sealed run or more",
                           "workings pack RUN --out submission.zip")
    for pack_path, run in runs.items():
        for inner, root in unit_roots(run.path).items():
            # Only the run itself holds checkpoints. A unit inside needs every file for its checks.
            _add_unit(contents, f"{pack_path}/{inner}" if inner else pack_path, run.path / inner, root,
                      by_digest=weights == BY_DIGEST and not inner)
        for path in sorted((run.path / ATTEST).glob("*")):
            contents.unsealed_files[f"{pack_path}/{ATTEST}/{path.name}"] = path.read_bytes()
    for pack_path, path in evaluations.items():
        _add_unit(contents, pack_path, path, root_digest(path), by_digest=False)
    contents.unsealed_files[f"{RUNS}/{ATTEMPTS}"] = _attempts([run.path for run in runs.values()])
    return contents


def _add_unit(contents: Contents, pack_path: str, folder: Path, root: str, *, by_digest: bool) -> None:
    contents.units[pack_path] = root
    for name, digest in parse_sums((folder / SUMS).read_bytes()).items():
        size = _size(folder / name)
        if by_digest and may_be_external(name):
            contents.external_files.append(ExternalFile(place=pack_path, file=name, sha256=digest, bytes=size))
        else:
            contents.sealed_files[f"{pack_path}/{name}"] = FileOnDisk(path=folder / name, size=size, sha256=digest)
    for name in (SUMS, SEAL):
        contents.sealed_files[f"{pack_path}/{name}"] = FileOnDisk(
            path=folder / name, size=_size(folder / name), sha256="")


def _attempts(paths: list[Path]) -> bytes:
    """The list of attempts next to the runs; those of several folders together, in order of time."""
    folders = sorted({path.resolve().parent for path in paths})
    rows: list[dict[str, Any]] = [row for folder in folders for row in attempts.read(folder)]
    if not rows:
        raise RequestError(f"there is no {ATTEMPTS} next to {paths[0]}", "the list of all runs that were started there",
                           "pack the run where `workings train` put it")
    # A single list stays as it is: a clock may have been set back, and each line names the one before it.
    if len(folders) > 1:
        rows.sort(key=lambda row: str(row.get("started_at")))
    return b"".join(map(line, rows))


def _size(path: Path) -> int:
    # A link could publish a private file.
    if path.is_symlink() or not path.is_file():
        raise RecordError(f"{path} is missing, or is no plain file")
    return path.stat().st_size


def seal_documents(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The pack's own files with their sums and seal."""
    sums = sums_text({name: bytes_digest(data) for name, data in documents.items()})
    seal = line({"schema": SEAL_SCHEMA, "unit": "pack", "status": "complete", "root": bytes_digest(sums),
                 "made_from": NO_ORIGIN})
    return {**documents, SUMS: sums, SEAL: seal}


def write_zip(target: Path, documents: Mapping[str, bytes], files: Mapping[str, FileOnDisk]) -> None:
    """Write the zip, atomically: tensors stored, texts deflated.

    Raises `RecordError` for bytes that changed since they were sealed, and `StorageError`.
    """
    if both := sorted(documents.keys() & files.keys()):
        raise RecordError(f"{both[0]} would be in the pack twice")

    def fill(stream: object) -> None:
        with zipfile.ZipFile(stream, "w") as archive:  # type: ignore[call-overload]
            for name in sorted({*documents, *files}):
                if name in documents:
                    archive.writestr(_info(name), documents[name])
                else:
                    _copy(archive, name, files[name])

    with storage(target, "write"):
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_with(target, fill)


def _copy(archive: zipfile.ZipFile, name: str, file: FileOnDisk) -> None:
    digest, large = hashlib.sha256(), file.size > LARGE_BYTES
    with file.path.open("rb") as source, archive.open(_info(name), "w", force_zip64=large) as target:
        for chunk in chunks(source):
            # Digested while it is copied: the file is read once, and no change can slip in between check and copy.
            digest.update(chunk)
            target.write(chunk)
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise RecordError(f"{file.path}: not the file that was sealed")


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system = 3  # Unix, on every system: the mode below is read only then
    info.external_attr = (0o100644) << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith(".safetensors") else zipfile.ZIP_DEFLATED
    return info
