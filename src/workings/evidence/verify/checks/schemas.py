"""Level 0: every file has its form: strict JSON, known keys, no nulls, no placeholders."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.record import PACK_KIND, Unit
from workings.evidence.verify.registry import check, every_unit, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.record.canonical import find_nulls, line
from workings.record.layout import (
    COMMIT,
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    EVALUATION_UNITS,
    MANIFEST,
    PREDICTIONS,
    README,
    SAMPLED,
    SEAL,
    SELECTION,
)
from workings.record.redact import find_placeholders, is_placeholder
from workings.scoring.scorers import is_score

THIRD_PARTY_FILES = frozenset({
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json",
    "generation_config.json", "model.safetensors.index.json", "vocab.json", "adapter_config.json"})
"""Files in formats of other projects: strict JSON, but with nulls and any texts."""
CANONICAL = (MANIFEST, SEAL, COMMIT)
"""Files with a canonical form."""
MAX_README_BYTES = 1 << 20
EVAL_FILES = {EVALUATION_CONFIG: "eval_config/1", EVALUATION_SUMMARY: "eval_summary/1"}


def json_files(unit: Unit) -> list[str]:
    """Names of a unit's `.json` files, its seal included."""
    # From the entries and not from the files, which leave the seal out.
    return [entry.name for entry in unit.entries if entry.kind == "file" and entry.name.endswith(".json")]


def line_files(unit: Unit) -> list[str]:
    """Names of a unit's `.jsonl` files."""
    return [entry.name for entry in unit.entries if entry.kind == "file" and entry.name.endswith(".jsonl")]


@check("form.json", every_unit)
def strict_json(unit: Unit) -> Iterator[CheckFinding]:
    """No repeated keys, no NaN, no torn line, no null of ours; manifest, seal and commits are canonical to the byte."""
    problems = []
    names, lines = json_files(unit), line_files(unit)
    for name in [*names, *lines]:
        try:
            nulls = _nulls_of(unit, name)
            if name.rpartition("/")[2] not in THIRD_PARTY_FILES:
                problems += nulls
            # With one form to the byte nothing can hide in spacing, in repeated keys or in another spelling of a
            # number.
            if name.rpartition("/")[2] in CANONICAL and line(unit.json(name)) != unit.read(name):
                problems.append(f"{name}: not in canonical form (RFC 8785 and a newline)")
            if name in lines and b"\r" in unit.read(name):
                problems.append(f"{name}: a line that ends otherwise than with a newline")
        except RecordError as error:
            problems.append(str(error))
    yield finding_from(problems, f"{len(names)} files and {len(lines)} files of lines", unit)


@check("form.schema", every_unit)
def schema(unit: Unit) -> Iterator[CheckFinding]:
    """Each kind of record against its schema."""
    if unit.is_run:
        version = unit.manifest.schema_version
        done = len(unit.steps)
        problems = [f"event {number} has no kind or no time" for number, row in enumerate(unit.events, start=1)
                    if not isinstance(row.get("kind"), str) or not isinstance(row.get("time"), str)]
        yield finding_from(problems, f"{version}, {done} steps, {len(unit.events)} events", unit)
    elif unit.kind in EVALUATION_UNITS:
        files = EVAL_FILES | ({SELECTION: "selection/1"} if unit.kind == SAMPLED else {})
        problems = [f"{name}: schema {str(_key(unit.json(name), 'schema'))[:40]!r}, expected {expected!r}"
                    for name, expected in files.items() if _key(unit.json(name), "schema") != expected]
        # Of predictions only what every later check relies on; the rest is for the checks of its fields.
        rows = unit.lines(PREDICTIONS)
        problems += [f"prediction {number} has no id or no score" for number, row in enumerate(rows, start=1)
                     if not isinstance(row.get("id"), str) or not is_score(row.get("score"))]
        yield finding_from(problems, f"{len(rows)} predictions", unit)


@check("form.placeholders", every_unit)
def placeholders(unit: Unit) -> Iterator[CheckFinding]:
    """Templates that were not filled in: in manifest, README and evaluation settings, not in models' texts."""
    problems = []
    # Items and completions are left out: a model may well write "TODO" or a pair of braces, and that is a result.
    for name in [name for name in json_files(unit) if name in (MANIFEST, *EVAL_FILES)]:
        with suppress(RecordError):  # reported by `form.json`
            problems += [f"{name}: {path} is {text[:40]!r}" for path, text in _texts(unit.json(name), "$")
                         if is_placeholder(text)]
    texts = [entry.name for entry in unit.entries if entry.kind == "file" and entry.name.endswith(".md")]
    # Texts of a pack are written for readers; of a run only the README is, and its samples are a model's words.
    for name in texts if unit.kind == PACK_KIND else [README] if unit.has(README) else []:
        text = unit.read(name, MAX_README_BYTES).decode("utf-8", errors="replace")
        problems += [f"{name}: {path[:40]!r}" for path in find_placeholders(text)]
    yield finding_from(problems, "no placeholders", unit)


def _nulls_of(unit: Unit, name: str) -> list[str]:
    """Nulls of a file, cached apart from its contents, which may be too large to stay in memory."""
    def find() -> list[str]:
        value = unit.lines(name) if name.endswith(".jsonl") else unit.json(name)
        # The bytes are searched first: mostly there is none, and to walk over a million values takes a second.
        return [f"{name}: {path}" for path in find_nulls(value)] if b"null" in unit.read(name) else []
    return unit.cached(f"nulls of {name}", find, file=name)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key[:60]}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{index}]")


def _key(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
