"""A forger who changes one field of one file of a record, plausibly, and seals everything again, in memory."""

import hashlib
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from unittest import mock

from workings.evidence.verify import run_checks
from workings.evidence.verify.load import load
from workings.evidence.verify.result import Verification
from workings.evidence.verify.tree import Entry, Tree, open_tree
from workings.record.canonical import line
from workings.scoring.judge import Judgement, judge
from workings.scoring.scorers import load_scorer

Place = tuple[Any, ...]
"""Keys and numbers on the way to a value; in a file of lines the number of a line comes first."""
_DIGEST = re.compile(r"[0-9a-f]{40,64}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:)(\d\d)(.*)")
_NUMBER = re.compile(r"\d+")


class MemoryTree(Tree):
    """Files of a record in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        folders = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents} - {"."}
        super().__init__(Path("memory"), [Entry(name=name, kind="folder", size=0) for name in folders] + [
            Entry(name=name, kind="file", size=len(data)) for name, data in files.items()])

    def stream(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.files[name])


def files_of(path: Path) -> dict[str, bytes]:
    """Every file of a folder or zip."""
    tree = open_tree(path)
    return {entry.name: tree.read(entry.name) for entry in tree.entries if entry.kind == "file"}


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """The files in a folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def verified(files: dict[str, bytes], level: int = 2, only: Collection[str] = (), **options: Any) -> Verification:
    """`verify` of files in memory; ``only``: these checks are made, and no others."""
    record = load(MemoryTree(files), **options)
    if not only:
        return run_checks.verify_record(record, level)
    with mock.patch.multiple(run_checks, _checks_up_to=lambda level: [run_checks.CHECKS[name] for name in only],
                             unchecked_fields=lambda record, verdicts: ()):
        return run_checks.verify_record(record, level)


def resealed(files: dict[str, bytes], *, commits: bool = True) -> dict[str, bytes]:
    """Commits, sums and seals rebuilt; units inside a run are told its new root, and a pack those of its runs."""
    files = dict(files)
    for name in [name for name in files if name.endswith("/COMMIT.json") and commits]:
        folder = name.rpartition("/")[0] + "/"
        files[name] = line(json.loads(files[name]) | {"files": {
            other.removeprefix(folder): {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for other, data in files.items() if other.startswith(folder) and other != name}})
    units = sorted((name.removesuffix("SEAL.json") for name in files if name.endswith("SEAL.json")), key=len)
    packs = [unit for unit in units if unit + "pack.json" in files]
    roots: dict[str, str] = {}
    before = {unit: hashlib.sha256(files.get(unit + "SHA256SUMS", b"")).hexdigest() for unit in units}
    # A pack last: it lists the roots of all units in it.
    for unit in [*(unit for unit in units if unit not in packs), *packs]:
        seal = json.loads(files[unit + "SEAL.json"])
        outer = next((other for other in roots if other != unit and unit.startswith(other)), None)
        if outer is not None and isinstance(seal["made_from"], str):
            seal["made_from"] = roots[outer]
            config = json.loads(files.get(unit + "eval_config.json", b"0"))
            if isinstance(config, dict):
                files[unit + "eval_config.json"] = line(config | {"made_from": roots[outer]})
        if unit in packs:
            files[unit + "pack.json"] = _with_roots(files[unit + "pack.json"], {
                before[each]: roots[each] for each in roots})
        inside = tuple(other for other in units if other != unit and other.startswith(unit))
        # Signatures come after the seal of a run; only a pack around it covers them.
        own = sorted(name for name in files if name.startswith(unit)
                     and (not name.startswith(inside) or (unit in packs and "/attest/" in name))
                     and name not in (unit + "SEAL.json", unit + "SHA256SUMS")
                     and ("/attest/" not in f"/{name}" or unit in packs))
        sums = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name.removeprefix(unit)}\n" for name in own)
        files[unit + "SHA256SUMS"] = sums.encode()
        roots[unit] = hashlib.sha256(sums.encode()).hexdigest()
        files[unit + "SEAL.json"] = line(seal | {"root": roots[unit]})
    return files


def _with_roots(data: bytes, changed: dict[str, str]) -> bytes:
    """A pack's list with the new roots of its units."""
    for old, new in changed.items():
        data = data.replace(old.encode(), new.encode())
    return data


def fields(data: bytes, name: str) -> list[tuple[Place, Any]]:
    """Every value of a JSON file (of lines: of the first line, and of the others what the first does not have)."""
    if name.endswith(".json"):
        return list(leaves(json.loads(data), ()))
    found: dict[str, tuple[Place, Any]] = {}
    for number, text in enumerate(data.splitlines()):
        for place, value in leaves(json.loads(text), (number,)):
            found.setdefault(pattern(place[1:]), (place, value))
    return list(found.values())


def pattern(place: Place) -> str:
    """A place without the numbers of lists."""
    return ".".join("*" if isinstance(part, int) else str(part) for part in place)


def leaves(value: Any, place: Place = (), *, every_item: bool = False) -> Iterator[tuple[Place, Any]]:
    """Places of all values and the values, of lists those of the first item, or of all as if each were the first."""
    if isinstance(value, dict) and set(value) != {"absent"} and value:
        for key, inner in value.items():
            yield from leaves(inner, (*place, key), every_item=every_item)
    elif isinstance(value, list) and value:
        for inner in value if every_item else value[:1]:
            yield from leaves(inner, (*place, 0), every_item=every_item)
    else:
        yield place, value


def another(value: Any) -> Any:
    """A value of the same kind that could be there as well."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 if value else 0.01
    if isinstance(value, dict):
        return {"absent": value["absent"] + " at all"} if value else {"more": 1}
    if isinstance(value, list):
        return ["more"]
    if _DIGEST.fullmatch(value):
        return value[:-1] + ("0" if value[-1] != "0" else "1")
    if found := _TIME.fullmatch(value):
        return f"{found[1]}{(int(found[2]) + 7) % 60:02d}{found[3]}"
    if _NUMBER.search(value):
        return _NUMBER.sub(lambda number: str(int(number.group(0)) + 1), value, count=1)
    return value + "s"


class ScoringHere:
    """The scoring process's work done in this one: the walk scores a record many times, and trusts its texts."""

    processor_seconds = 0.0
    """There are no children."""

    def __init__(self, settings: Any) -> None:
        self.settings, self.scorer = settings, load_scorer(settings.scorer)

    def __enter__(self) -> "ScoringHere":
        return self

    def __exit__(self, *unused: object) -> None:
        pass

    def judge(self, completions: list[tuple[Any, str, bool]]) -> list[Judgement]:
        return [judge(item, text, self.scorer, self.settings, truncated=cut) for item, text, cut in completions]


@dataclass(frozen=True)
class Step:
    """One field that can be changed."""

    name: str
    place: Place

    @property
    def field(self) -> str:
        return pattern(self.place[1:] if self.name.endswith(".jsonl") else self.place)

    def __str__(self) -> str:
        return f"{self.name}: {self.field}"


def steps_of(files: dict[str, bytes]) -> list[Step]:
    """Every field of every JSON file but what sealing makes again: sums, seals, commits and the root of a run."""
    return [Step(name, place) for name, data in sorted(files.items())
            if name.endswith((".json", ".jsonl")) and name.rpartition("/")[2] not in ("SEAL.json", "COMMIT.json")
            and "tokenizer/" not in name and "/attest/" not in name for place, _ in fields(data, name)
            if (name.rpartition("/")[2], place) != ("eval_config.json", ("made_from",))]


def unit_of(name: str, files: dict[str, bytes]) -> tuple[str, str, str]:
    """Place and kind of the unit that a file is in, and its name there; `attempts` for what is in none."""
    if name.rpartition("/")[2] == "attempts.jsonl":
        return "", "attempts", "attempts.jsonl"
    units = [seal.removesuffix("SEAL.json") for seal in files if seal.endswith("SEAL.json")]
    unit = max((unit for unit in units if name.startswith(unit)), key=len, default=None)
    if unit is None:
        return "", "attempts", name
    return unit.rstrip("/"), json.loads(files[unit + "SEAL.json"])["unit"], name.removeprefix(unit)
