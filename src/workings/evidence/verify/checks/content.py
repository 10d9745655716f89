"""Level 0: a record holds nothing that a check would run, and nothing private."""

import codecs
import re
from collections.abc import Iterator

from workings.errors import RecordError
from workings.evidence.attest.envelope import PUBLIC_NAME
from workings.evidence.verify import tree as trees
from workings.evidence.verify.checks.schemas import THIRD_PARTY_FILES
from workings.evidence.verify.checks.tensors import read_header
from workings.evidence.verify.limits import refuse_too_much_text
from workings.evidence.verify.record import PACK_KIND, Record, Unit
from workings.evidence.verify.registry import check, every_unit, finding_from, for_each_unit, not_checked, record_check
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import Entry, shown
from workings.record.layout import ATTEST, RECIPE, REWARDS, SUMS
from workings.record.redact import find_secrets
from workings.record.untrusted_files import TooLarge

TEXT_SUFFIXES = frozenset({"json", "jsonl", "txt", "md", "yaml", "yml", "csv", "jinja"})

# First bytes of files that a system or a library would run or unpack.
_RUNS = {b"#!": "a script", b"\x7fELF": "a program", b"PK\x03\x04": "an archive", b"\x1f\x8b": "an archive",
         b"\x80": "a pickle"}
_HOME = re.compile(r"(?<![\w.])(?:/home/|/Users/)[A-Za-z0-9][\w.-]{0,63}|(?<![\w./])/root/[\w.-]{1,64}"
                   r"|\b[A-Za-z]:\\Users\\[\w.-]{1,64}")
# Searching a fixed text is much faster than the pattern, and most pieces have none.
_HOME_HINTS = ("/home/", "/Users/", "/root/", ":\\Users\\")
_CHUNK_BYTES = 1 << 20
# More than the longest pattern needs for a match: about 4,020 characters of a web token.
_OVERLAP_BYTES = 4096


@check("content.plain", every_unit)
def plain(unit: Unit) -> Iterator[CheckFinding]:
    """Every file against an allow-list of kinds, and its content: UTF-8 text, tensors that fit their header."""
    problems = []
    for entry in unit.entries:
        if entry.kind == "file":
            try:
                _check_kind(unit, entry.name)
            except RecordError as error:
                problems.append(str(error))
    yield finding_from(problems, "text, JSON and tensors only", unit)


@record_check("content.private")
def private(record: Record) -> Iterator[CheckFinding]:
    """Texts against tokens and keys of a known form, and against `/home/name`, `/Users/name`, `/root/…` and the like.

    Unknown forms cannot be found: look before publishing.
    """
    try:
        refuse_too_much_text(sum(entry.size for entry in record.tree.entries if _is_own_text(entry)))
    except TooLarge as error:
        yield not_checked(str(error))
        return
    yield from for_each_unit(record.units, lambda unit: iter([finding_from(_leaks(unit), "nothing private", unit)]))


def _leaks(unit: Unit) -> list[str]:
    """Secrets and home folders in a unit's texts."""
    leaks = set[str]()
    for name, text in _own_texts(unit):
        leaks.update(f"{name}: {secret}" for secret in find_secrets(text))
        if any(hint in text for hint in _HOME_HINTS):
            leaks.update(f"{name}: {match.group(0)}" for match in _HOME.finditer(text))
    return sorted(leaks)


def _check_kind(unit: Unit, name: str) -> None:
    """Raise `RecordError` unless a file is of an allowed kind and really is of that kind."""
    # An allow-list, so that unknown formats are refused.
    # A reward that was given in Python is the only code; it is read as text, and no check runs it.
    last = name.rpartition("/")[2]
    suffix = last.rpartition(".")[2].lower() if "." in last else ""
    if suffix == "safetensors":
        read_header(unit, name)
    elif suffix in TEXT_SUFFIXES or last == SUMS \
            or (suffix == "py" and name.rpartition("/")[0] == RECIPE.rpartition("/")[0] and unit.has(REWARDS)) \
            or (unit.kind == PACK_KIND and (PUBLIC_NAME.fullmatch(last) and f"/{ATTEST}/" in name)):
        _check_text(unit, name)
    else:
        raise RecordError(f"{shown(name)}: a kind of file that a record does not hold here")


def _check_text(unit: Unit, name: str) -> None:
    # An incremental decoder keeps a character that is cut by the border of two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")()
    with unit.tree.open(unit.tree_path(name)) as stream, trees.reading(unit.tree_path(name)):
        first = True
        while True:
            data = stream.read(_CHUNK_BYTES)
            if first and (kind := next((kind for magic, kind in _RUNS.items() if data.startswith(magic)), "")):
                raise RecordError(f"{shown(name)}: begins like {kind}")
            if b"\0" in data:
                raise RecordError(f"{shown(name)}: holds zero bytes, so it is not text")
            try:
                decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                raise RecordError(f"{shown(name)}: not UTF-8 text") from None
            if not data:
                return
            first = False


def _own_texts(unit: Unit) -> Iterator[tuple[str, str]]:
    """Pieces of the texts of this project, overlapping so that nothing is lost on a border."""
    for entry in unit.entries:
        if not _is_own_text(entry):
            continue
        try:
            with unit.tree.open(unit.tree_path(entry.name)) as stream, trees.reading(unit.tree_path(entry.name)):
                before = b""
                while data := stream.read(_CHUNK_BYTES):
                    yield entry.name, (before + data).decode("utf-8", errors="replace")
                    # Matches in the overlap are found twice; callers use a set.
                    before = data[-_OVERLAP_BYTES:]
        except RecordError:
            continue  # reported by integrity.sums and content.plain


def _is_own_text(entry: Entry) -> bool:
    last = entry.name.rpartition("/")[2]
    # A tokenizer's vocabulary may hold any text, such as `/home/user`.
    return (entry.kind == "file" and last not in THIRD_PARTY_FILES
            and last.rpartition(".")[2].lower() in TEXT_SUFFIXES)
