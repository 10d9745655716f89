"""Records made to hang whoever reads them or to fill the memory. Each is sealed again as far as it can be."""

import base64
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.evidence import reseal
from workings.record.layout import CONFIG, EVENTS, LOG, MANIFEST, METRICS, PREDICTIONS, README, SUMS

FILES = 60
FILE_BYTES = 900_000
EVALUATION = "eval/test"
Denial = Callable[[Path], Path]
"""Changes a run; what is to be read then."""


def _filled(begin: bytes, middle: bytes, end: bytes, size: int = FILE_BYTES) -> bytes:
    return begin + middle * (size // len(middle)) + end


MANY_VALUES = {
    "lists": _filled(b"[", b"[],", b"1]"), "lists of one": _filled(b"[", b"[1],", b"1]"),
    "objects": _filled(b"[", b"{},", b"1]"), "objects of one": _filled(b"[", b'{"a":300},', b"1]"),
    "nulls": _filled(b"[", b"null,", b"1]"), "numbers": _filled(b"[", b"300,", b"1]"),
    "texts": b"[" + b",".join(b'"%d"' % number for number in range(100_000)) + b"]",
    "keys": b"{" + b",".join(b'"%d":1' % number for number in range(90_000)) + b"}",
}
"""JSON that takes many times its size in memory."""


def _instead(name: str, make: Callable[[Path], object]) -> Denial:
    def change(run: Path) -> Path:
        (run / name).unlink()
        make(run / name)
        return run
    return change


def _holes(size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)
    return make


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _written(name: str, data: bytes) -> Denial:
    def change(run: Path) -> Path:
        (run / name).write_bytes(data)
        reseal.reseal(run)
        return run
    return change


def _many(data: bytes) -> Denial:
    def change(run: Path) -> Path:
        for number in range(FILES):
            (run / f"config/many_{number:02}.json").write_bytes(data)
        reseal.reseal(run)
        return run
    return change


def many_evaluations(run: Path) -> Path:
    """Sixty evaluations whose scorecards are long."""
    for number in range(FILES):
        place = run / f"eval/more_{number:02}"
        place.mkdir()
        for file in (run / EVALUATION).iterdir():
            (place / file.name).write_bytes(file.read_bytes())
        reseal.edit_json(place / "eval_summary.json",
                         lambda value: {**value, "more": json.loads(MANY_VALUES["lists"])})
    reseal.reseal(run)
    return run


def completion(text: str, count: int = 1) -> Denial:
    """So many predictions with this completion."""
    def change(run: Path) -> Path:
        reseal.edit_lines(run / EVALUATION / PREDICTIONS, lambda rows: [
            {**rows[0], "id": f"x{number}", "completion": text} for number in range(count)])
        reseal.reseal(run)
        return run
    return change


def long_log(run: Path) -> Path:
    """A million lines of a log that are no steps."""
    (run / METRICS).write_bytes(b'{"step":1,"a":300}\n' * 1_000_000)
    reseal.reseal(run)
    return run


def packed_rollout(run: Path) -> Path:
    """A rollout of four hundred kilobytes that claims a hundred million tokens."""
    path = next((run / "train/rollouts").iterdir())
    packed = base64.b85encode(zlib.compress(bytes(4 * 100_000_000), 9)).decode()
    reseal.edit_json(path, lambda value: {
        **value, "tokens": packed, "sampler_log_probs": packed, "trainer_log_probs": packed,
        "lengths": [100_000_000 // len(value["lengths"])] * len(value["lengths"])})
    return run


TEXT_BYTES = 400_000
OPENINGS = ("<pre ", "<!--", "```text\n", "1,1,", "a = a = ", "1+1=3 ", "[(", "$1", "<your ", "{{", "password=",
            "/home/", "eyJ-", "- ", " ", "\t\n", "1 1/2 ", "\\frac{", "https://a.", "a@")
"""Texts at whose repetition a pattern may go back and forth."""


def _texts(opening: str) -> Denial:
    def change(run: Path) -> Path:
        for file in (README, LOG, f"{EVALUATION}/samples.md", "WRITEUP.md"):
            (run / file).write_text(opening * (TEXT_BYTES // len(opening)))
        reseal.reseal(run)
        return run
    return change


DENIALS: dict[str, Denial] = {
    **{f"{name} leads to /dev/zero": _instead(name, _zeros) for name in (
        METRICS, EVENTS, MANIFEST, CONFIG, LOG, README, SUMS, f"{EVALUATION}/{PREDICTIONS}",
        f"{EVALUATION}/eval_summary.json")},
    **{f"{name} is a pipe": _instead(name, os.mkfifo) for name in (METRICS, MANIFEST, README)},
    **{f"{name} is 4 GiB of holes": _instead(name, _holes(4 << 30)) for name in (
        METRICS, EVENTS, MANIFEST, CONFIG, LOG, README, SUMS, f"{EVALUATION}/{PREDICTIONS}")},
    "a checkpoint is a terabyte of holes": _instead("checkpoints/step_000006/model.safetensors", _holes(1 << 40)),
    **{f"{FILES} files of {what}": _many(data) for what, data in MANY_VALUES.items()},
    **{f"a file of 60 MB of {what}": _written("config/one.json", _filled(data[:1], data[1:-2] + (
        b"" if data[-3:-2] == b"," else b","), b"1]" if data[:1] == b"[" else b'"x":1}', 60_000_000))
       for what, data in MANY_VALUES.items() if what != "keys"},
    "60 evaluations of lists": many_evaluations,
    "a million lines of a log": long_log,
    "half a million events": _written(EVENTS, b'{"kind":"x","time":"2026-01-01T00:00:00Z"}\n' * 500_000),
    "lines of lists": _written(METRICS, b'{"a":[[],[],[],[],[]]}\n' * 500_000),
    **{f"README, log, samples and write-up of {opening!r}": _texts(opening) for opening in OPENINGS},
    **{f"a completion of {opening!r}": completion(opening * (TEXT_BYTES // len(opening))) for opening in OPENINGS},
    "a hundred completions of 400 kB": completion("1 1/2 = " * 50_000, 100),
}
