"""Seals a folder of files, so that anyone can find a later change.

`SHA256SUMS` lists every file of the unit; its own digest is the unit's root digest, the one line that has to be kept
elsewhere. `SEAL.json`, written last, says what the unit is and from which root it was made. Units inside (evaluations,
samples, signatures) have separate checksums, so later work never touches these.
"""

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Any

from workings.errors import RecordError
from workings.record import atomic
from workings.record.canonical import loads
from workings.record.digest import bytes_digest, file_digest, is_digest
from workings.record.layout import SEAL, SUMS, check_relative, unit_of
from workings.record.storage import read_plain, storage

SCHEMA = "seal/1"
STATUSES = ("complete", "interrupted", "failed")
NO_ORIGIN = {"absent": "made from no other unit"}


def seal_unit(directory: Path, unit: str, status: str, made_from: str | None) -> str:
    """Write `SHA256SUMS` and then `SEAL.json`; the result is the root digest, that of the bytes of `SHA256SUMS`.

    ``unit``: kind of the unit: `run`, `eval` or `samples`. ``status``: `complete`, `interrupted` or `failed`.
    ``made_from``: root digest of the unit that it was made from; None for a run. Empty folders are removed, because no
    sum could cover them. Raises `RecordError` if the unit is sealed already, or holds something that a record may not
    (hidden files, links, odd names), and `StorageError`.
    """
    if (directory / SEAL).exists():
        raise RecordError(f"{directory} is sealed already; sealed units never change")
    with storage(directory, "seal"):
        # Every step from here on can be repeated after a kill.
        remove_empty_folders(directory)
        files = unit_files(directory, nested=unit == "run")
        sums = sums_text({name: file_digest(directory / name) for name in files})
        # The listed files are on the disk before the list is, and the list before the seal that relies on it.
        atomic.sync_tree(directory)
        atomic.write_bytes(directory / SUMS, sums)
        atomic.write_json(directory / SEAL, {
            "schema": SCHEMA, "unit": unit, "status": status, "root": bytes_digest(sums),
            "made_from": NO_ORIGIN if made_from is None else made_from})
    return bytes_digest(sums)


def unit_files(directory: Path, *, nested: bool) -> list[str]:
    """Relative paths of a unit's files, sorted by bytes, without its sums and seal.

    ``nested``: leave out folders that are separate units. Raises `RecordError`, which names what no record may hold.
    """
    files: list[str] = []
    for parent, folders, names in os.walk(directory):
        relative = Path(parent).relative_to(directory).as_posix()
        prefix = "" if relative == "." else relative + "/"
        if nested:
            # In place, so that `os.walk` skips them.
            folders[:] = [name for name in folders if not unit_of(PurePosixPath(prefix + name))]
        for name in folders + names:
            check_relative(prefix + name)
            mode = Path(parent, name).lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RecordError(f"{prefix}{name}: a link or a special file; a record holds plain files only")
        files += [prefix + name for name in names if prefix + name not in (SUMS, SEAL)]
    refuse_same_but_for_case(files)
    return sorted(files)


def refuse_same_but_for_case(files: list[str]) -> None:
    """Two names that differ only in case are one file on other systems. Raises `RecordError`."""
    seen: dict[str, str] = {}
    for name in files:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise RecordError(f"{other} and {name} differ only in upper and lower case")


def remove_empty_folders(directory: Path) -> None:
    """Remove folders without files, from the bottom up; ``directory`` itself stays."""
    for parent, _, _ in os.walk(directory, topdown=False):
        if Path(parent) != directory and next(Path(parent).iterdir(), None) is None:
            Path(parent).rmdir()


def sums_text(digests: dict[str, str]) -> bytes:
    """The bytes of a `SHA256SUMS` in the form of GNU coreutils, sorted by path."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode("utf-8")


def parse_sums(data: bytes) -> dict[str, str]:
    """Digests by path. Only the exact form that `sums_text` writes is accepted. Raises `RecordError`."""
    digests: dict[str, str] = {}
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise RecordError(f"{SUMS} is not UTF-8 text") from None
    for number, text in enumerate(lines, start=1):
        digest, _, name = text.partition("  ")
        if not is_digest(digest):
            raise RecordError(f"{SUMS}, line {number}: no SHA-256 in lower-case hexadecimal")
        check_relative(name)
        digests[name] = digest
    # Writing it again finds every other deviation: another order, a path given twice, CRLF, no newline at the end.
    if sums_text(digests) != data:
        raise RecordError(f"{SUMS} is not in its one form: sorted paths, each once, a newline after each")
    return digests


def parse_seal(data: bytes) -> dict[str, Any]:
    """Contents of a `SEAL.json`: `unit`, `status`, `root`, `made_from`. Raises `RecordError`."""
    seal = loads(data)
    if not isinstance(seal, dict) or set(seal) != {"schema", "unit", "status", "root", "made_from"}:
        raise RecordError(f"{SEAL} does not have exactly the keys schema, unit, status, root, made_from")
    if seal["schema"] != SCHEMA:
        raise RecordError(f"{SEAL}: schema {str(seal['schema'])[:40]!r}; this version reads {SCHEMA}")
    if seal["status"] not in STATUSES:
        raise RecordError(f"{SEAL}: status {str(seal['status'])[:40]!r} is not one of {', '.join(STATUSES)}")
    origin = seal["made_from"]
    if origin != NO_ORIGIN and not is_digest(origin):
        raise RecordError(f"{SEAL}: made_from is neither a root digest nor {NO_ORIGIN}")
    return seal


def unit_kind(directory: Path) -> str:
    """Kind of a sealed folder (`eval`, `samples`, …); empty if it is not sealed. Raises `RecordError`."""
    return str(parse_seal(read_plain(directory / SEAL))["unit"]) if (directory / SEAL).is_file() else ""


def root_digest(directory: Path) -> str:
    """Root digest of a sealed unit. Raises `RecordError` if it is not sealed."""
    if not (directory / SEAL).is_file() or not (directory / SUMS).is_file():
        raise RecordError(f"{directory} is not sealed")
    return bytes_digest(read_plain(directory / SUMS))
