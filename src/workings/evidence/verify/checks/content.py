"""Level 0: every file has its form, and there are no programs and nothing private."""

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress

from workings.errors import RecordError
from workings.evidence.attest.envelope import PUBLIC_NAME
from workings.evidence.verify.checks.tensors import read_header
from workings.evidence.verify.limits import refuse_too_much_text
from workings.evidence.verify.record import PACK_KIND, Unit
from workings.evidence.verify.registry import Found, check, contradictions
from workings.evidence.verify.tree import Entry, shown
from workings.record import layout
from workings.record.canonical import find_nulls, line, places
from workings.record.digest import chunks
from workings.record.redact import find_placeholders, find_secrets, is_placeholder
from workings.scoring.scorers import is_score

THIRD_PARTY_FILES = frozenset({
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json",
    "generation_config.json", "model.safetensors.index.json", "vocab.json", "adapter_config.json"})
"""Files in formats of other projects: strict JSON, but with nulls and any texts."""
CANONICAL = (layout.MANIFEST, layout.SEAL, layout.COMMIT)
MAX_README_BYTES = 1 << 20
EVAL_FILES = {layout.EVALUATION_CONFIG: "eval_config/1", layout.EVALUATION_SUMMARY: "eval_summary/1"}
TEXT_SUFFIXES = frozenset({"json", "jsonl", "txt", "md", "yaml", "yml", "csv", "jinja"})

_MAGIC = {b"#!": "a script", b"\x7fELF": "a program", b"PK\x03\x04": "an archive", b"\x1f\x8b": "an archive",
         b"\x80": "a pickle"}
"""First bytes of files that a system or a library would run or unpack."""
_HOME = re.compile(r"(?<![\w.])(?:/home/|/Users/)[A-Za-z0-9][\w.-]{0,63}|(?<![\w./])/root/[\w.-]{1,64}"
                   r"|\b[A-Za-z]:\\Users\\[\w.-]{1,64}")
_HOME_HINTS = ("/home/", "/Users/", "/root/", ":\\Users\\")
"""Each match of the pattern has one of these, which are much faster to search for."""
_OVERLAP_BYTES = 4096
"""More than the longest match of a pattern: about 4,020 characters of a web token."""


def _names(unit: Unit, suffix: str = "") -> list[str]:
    return [entry.name for entry in unit.entries if entry.kind == "file" and entry.name.endswith(suffix)]


@check("form.json", "units")
def strict_json(unit: Unit) -> Found:
    """No repeated keys, no NaN, no torn line, no null of ours; manifest, seal and commits are canonical to the byte."""
    names, lines = _names(unit, ".json"), _names(unit, ".jsonl")
    for name in [*names, *lines]:
        last = name.rpartition("/")[2]
        try:
            value = unit.lines(name) if name in lines else unit.json(name)
            data = unit.read(name)
            # A search in the bytes is much faster than one in a million values.
            if last not in THIRD_PARTY_FILES and b"null" in data:
                yield from (f"{name}: {path}" for path in find_nulls(value))
            if last in CANONICAL and line(value) != data:
                yield f"{name}: not in canonical form (RFC 8785 and a newline)"
            if name in lines and b"\r" in data:
                yield f"{name}: a line that ends otherwise than with a newline"
        except RecordError as error:
            yield str(error)
    return f"{len(names)} files and {len(lines)} files of lines"


@check("form.schema", "units")
def schema(unit: Unit) -> Found:
    """Each kind of record against its schema."""
    if unit.is_run:
        version, done = unit.manifest.schema_version, len(unit.steps)
        yield from (f"event {number} has no kind or no time" for number, row in enumerate(unit.events, start=1)
                    if not isinstance(row.get("kind"), str) or not isinstance(row.get("time"), str))
        return f"{version}, {done} steps, {len(unit.events)} events"
    if unit.kind not in layout.EVALUATION_UNITS:
        return None
    of_samples = {layout.SELECTION: "selection/1"} if unit.kind == layout.SAMPLED else {}
    for name, expected in {**EVAL_FILES, **of_samples}.items():
        yield from contradictions(name, unit.json_object(name), {"schema": expected}, "expected")
    rows = unit.lines(layout.PREDICTIONS)
    yield from (f"prediction {number} has no id or no score" for number, row in enumerate(rows, start=1)
                if not isinstance(row.get("id"), str) or not is_score(row.get("score")))
    return f"{len(rows)} predictions"


@check("form.placeholders", "units")
def placeholders(unit: Unit) -> Found:
    """Templates that were not filled in: in manifest, README and evaluation settings, not in models' texts."""
    for name in filter(unit.has, (layout.MANIFEST, *EVAL_FILES)):
        with suppress(RecordError):  # reported by `form.json`
            yield from (f"{name}: {path} is {value[:40]!r}" for path, value in places(unit.json(name))
                        if isinstance(value, str) and is_placeholder(value))
    # Other texts of a run may be a model's words.
    for name in _names(unit, ".md") if unit.kind == PACK_KIND else [*filter(unit.has, [layout.README])]:
        text = unit.read(name, MAX_README_BYTES).decode("utf-8", errors="replace")
        yield from (f"{name}: {path[:40]!r}" for path in find_placeholders(text))
    return "no placeholders"


@check("content.plain", "units")
def plain(unit: Unit) -> Found:
    """Every file against an allow-list of kinds, and its content: UTF-8 text, tensors that fit their header."""
    for name in _names(unit):
        try:
            _check_kind(unit, name)
        except RecordError as error:
            yield str(error)
        except UnicodeDecodeError as error:
            yield f"{shown(name)}: {error}"
    return "text, JSON and tensors only"


@check("content.private", "units")
def private(unit: Unit) -> Found:
    """Texts against tokens and keys of a known form, and against `/home/name`, `/Users/name`, `/root/…` and the like.

    Unknown forms cannot be found: look before publishing.
    """
    sizes = (entry.size for entry in unit.tree.entries if _is_own_text(entry))
    refuse_too_much_text(unit.tree.cache.get_or_make(("", "bytes of texts"), lambda: sum(sizes), ""))
    leaks = set[str]()
    for name, text in _own_texts(unit):
        leaks.update(f"{name}: {secret}" for secret in find_secrets(text))
        if any(hint in text for hint in _HOME_HINTS):
            leaks.update(f"{name}: {match.group(0)}" for match in _HOME.finditer(text))
    yield from sorted(leaks)
    return "nothing private"


def _check_kind(unit: Unit, name: str) -> None:
    """Raise `RecordError` unless a file is of an allowed kind and really is of that kind."""
    folder, _, last = name.rpartition("/")
    suffix = last.rpartition(".")[2].lower() if "." in last else ""
    # A reward that was given in Python is the only code. It is read as text, and no check runs it.
    is_reward = suffix == "py" and folder == layout.RECIPE.rpartition("/")[0] and unit.has(layout.REWARDS)
    is_packed_key = unit.kind == PACK_KIND and PUBLIC_NAME.fullmatch(last) and f"/{layout.ATTEST}/" in name
    if suffix == "safetensors":
        read_header(unit, name)
    elif suffix in TEXT_SUFFIXES or last == layout.SUMS or is_reward or is_packed_key:
        _check_text(unit, name)
    else:
        raise RecordError(f"{shown(name)}: a kind of file that a record does not hold here")


def _check_text(unit: Unit, name: str) -> None:
    # An incremental decoder, because a chunk may end in the middle of a character.
    decoder = codecs.getincrementaldecoder("utf-8")()
    with unit.open(name) as stream:
        for number, data in enumerate(chunks(stream)):
            kinds = [kind for magic, kind in _MAGIC.items() if number == 0 and data.startswith(magic)]
            if kinds:
                raise RecordError(f"{shown(name)}: begins like {kinds[0]}")
            if b"\0" in data:
                raise RecordError(f"{shown(name)}: holds zero bytes, so it is not text")
            decoder.decode(data)
        decoder.decode(b"", final=True)


def _own_texts(unit: Unit) -> Iterator[tuple[str, str]]:
    """Name and chunks of each text of this project. Chunks overlap, because a token may be on the border of two."""
    for entry in filter(_is_own_text, unit.entries):
        with suppress(RecordError), unit.open(entry.name) as stream:  # reported by integrity.sums and content.plain
            before = b""
            for data in chunks(stream):
                yield entry.name, (before + data).decode("utf-8", errors="replace")
                before = data[-_OVERLAP_BYTES:]


def _is_own_text(entry: Entry) -> bool:
    last = entry.name.rpartition("/")[2]
    # A tokenizer's vocabulary may hold any text, such as `/home/user`.
    return (entry.kind == "file" and last not in THIRD_PARTY_FILES and last.rpartition(".")[2].lower() in TEXT_SUFFIXES)
