"""Records made to hang their reader or to fill the memory. Each is sealed again as far as it can be."""

import base64
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.evidence import reseal
from workings.record.canonical import line
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


def resealed(change: Callable[[Path], object]) -> Denial:
    """A change of a run's files, after which it is sealed again."""
    def denial(run: Path) -> Path:
        change(run)
        reseal.reseal(run)
        return run
    return denial


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


def _written(name: str, data: Callable[[], bytes]) -> Denial:
    return resealed(lambda run: (run / name).write_bytes(data()))


def _sixty_megabytes(data: bytes) -> bytes:
    """Values as in ``data``, this many of them. Made when they are written: all together they take half a gigabyte."""
    comma = b"" if data[-3:-2] == b"," else b","
    return _filled(data[:1], data[1:-2] + comma, b"1]" if data[:1] == b"[" else b'"x":1}', 60_000_000)


def _many(data: bytes) -> Denial:
    return resealed(lambda run: [(run / f"config/many_{number:02}.json").write_bytes(data) for number in range(FILES)])


def _more_evaluations(run: Path, count: int, names: Sequence[str] = ()) -> Iterator[Path]:
    """Copies of the evaluation next to it, of these files or of all."""
    for number in range(count):
        place = run / f"eval/more_{number:05}"
        place.mkdir()
        for name in names or [file.name for file in (run / EVALUATION).iterdir()]:
            (place / name).write_bytes((run / EVALUATION / name).read_bytes())
        yield place


@resealed
def many_evaluations(run: Path) -> None:
    """Sixty evaluations whose scorecards are long."""
    for place in _more_evaluations(run, FILES):
        reseal.edit_json(place / "eval_summary.json",
                         lambda value: {**value, "more": json.loads(MANY_VALUES["lists"])})


def completion(text: str, count: int = 1) -> Denial:
    """This many predictions with this completion."""
    return resealed(lambda run: reseal.edit_lines(run / EVALUATION / PREDICTIONS, lambda rows: [
        {**rows[0], "id": f"x{number}", "completion": text} for number in range(count)]))


def _packed(count: int) -> str:
    return base64.b85encode(zlib.compress(bytes(4 * count), 9)).decode()


def packed_rollouts(tokens: int, count: int) -> Denial:
    """This many rollouts of a few kilobytes that hold this many tokens each."""
    def longer(value: dict[str, Any]) -> dict[str, Any]:
        completions = len(value["lengths"])
        learned = sum(value["kept"]) * completions // len(value["kept"])
        stops = completions * (tokens // completions + 1)
        return {**value, "lengths": [tokens // completions] * completions, "stop_tokens": [1] * completions,
                "tokens": _packed(tokens // completions * completions), "sampler_log_probs": _packed(stops),
                "trainer_log_probs": _packed(learned * (tokens // completions + 1))}

    def change(run: Path) -> None:
        reseal.change_config(run, lambda value: value | {
            "data": value["data"] | {"max_length": 2 * tokens + 1000},
            "algorithm": value["algorithm"] | {"max_new_tokens": tokens}})
        value = longer(json.loads((run / "train/rollouts/step_000001.json").read_bytes()))
        for number in range(count):
            step = 1 + 2 * number
            (run / f"train/rollouts/step_{step:06d}.json").write_bytes(line({**value, "step": step}))
    return resealed(change)


def many_units(count: int) -> Denial:
    """This many evaluations that hold a seal, and nothing that it seals."""
    def change(run: Path) -> Path:
        for _ in _more_evaluations(run, count, ("SEAL.json", SUMS)):
            pass
        return run
    return change


def own_settings(count: int) -> Denial:
    """This many evaluations of one item, each scored with another limit."""
    def change(run: Path) -> None:
        for number, place in enumerate(_more_evaluations(run, count)):
            reseal.edit_lines(place / PREDICTIONS, lambda rows: rows[:1])
            reseal.edit_json(place / "eval_config.json", lambda value, number=number: {
                **value, "limits": {**value["limits"], "max_completion_chars": 10_000 + number}})
    return resealed(change)


def many_names(run: Path) -> Path:
    """A folder of a hundred and fifty thousand empty files."""
    (run / "env/more").mkdir()
    for number in range(150_000):
        (run / f"env/more/{number:06}.txt").touch()
    return run


def zip_of_texts(piece_bytes: int, count: int = 900) -> Denial:
    """An archive of this many texts of nine megabytes, in which a piece of this many bytes is repeated.

    Deflate looks back 32 KiB: a shorter piece makes an archive of some eighty megabytes, a longer one of seven hundred.
    """
    def change(run: Path) -> Path:
        place = run.parent / "packed.zip"
        piece = b"".join(b"%d token password /home x\n" % number for number in range(10_000))[:piece_bytes]
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path for path in run.rglob("*") if path.is_file()):
                archive.write(file, file.relative_to(run.parent))
            for number in range(count):
                archive.writestr(f"tiny/env/more_{number:03}.txt", piece * (9_000_000 // piece_bytes))
        return place
    return change


def together(run: Path) -> Path:
    """As much of everything as is allowed: parsing, scoring, text."""
    many_evaluations(run)
    for number in range(50):
        (run / f"env/more_{number:02}.txt").write_bytes(b"token password /home x\n" * 400_000)
    return completion("1 1/2 = " * 50_000, 100)(run)


TEXT_BYTES = 400_000
OPENINGS = ("<pre ", "<!--", "```text\n", "1,1,", "a = a = ", "1+1=3 ", "[(", "$1", "<your ", "{{", "password=",
            "/home/", "eyJ-", "- ", " ", "\t\n", "1 1/2 ", "\\frac{", "https://a.", "a@")
"""Texts at whose repetition a pattern may go back and forth."""


def _texts(opening: str) -> Denial:
    return resealed(lambda run: [(run / file).write_text(opening * (TEXT_BYTES // len(opening)))
                                 for file in (README, LOG, "WRITEUP.md")])


DENIALS: dict[str, Denial] = {
    **{f"{name} leads to /dev/zero": _instead(name, _zeros) for name in (
        METRICS, EVENTS, MANIFEST, CONFIG, LOG, README, SUMS, f"{EVALUATION}/{PREDICTIONS}",
        f"{EVALUATION}/eval_summary.json")},
    **{f"{name} is a pipe": _instead(name, os.mkfifo) for name in (METRICS, MANIFEST, README)},
    **{f"{name} is 4 GiB of holes": _instead(name, _holes(4 << 30)) for name in (
        METRICS, EVENTS, MANIFEST, CONFIG, LOG, README, SUMS, f"{EVALUATION}/{PREDICTIONS}")},
    "a checkpoint is a terabyte of holes": _instead("checkpoints/step_000006/model.safetensors", _holes(1 << 40)),
    **{f"{FILES} files of {what}": _many(data) for what, data in MANY_VALUES.items()},
    **{f"a file of 60 MB of {what}": _written("config/one.json", partial(_sixty_megabytes, data))
       for what, data in MANY_VALUES.items() if what != "keys"},
    "a checkpoint's commit of a million keys": _written("checkpoints/step_000006/COMMIT.json", lambda: (
        b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}\n")),
    "60 evaluations of lists": many_evaluations,
    "a million lines of a log": _written(METRICS, lambda: b'{"step":1,"a":300}\n' * 1_000_000),
    "half a million events": _written(EVENTS, lambda: b'{"kind":"x","time":"2026-01-01T00:00:00Z"}\n' * 500_000),
    "lines of lists": _written(METRICS, lambda: b'{"a":[[],[],[],[],[]]}\n' * 500_000),
    **{f"README, log, samples and write-up of {opening!r}": _texts(opening) for opening in OPENINGS},
    **{f"a completion of {opening!r}": completion(opening * (TEXT_BYTES // len(opening))) for opening in OPENINGS},
    "a hundred completions of 400 kB": completion("1 1/2 = " * 50_000, 100),
    "thirty thousand completions of a thousand characters": completion("1 " * 500, 30_000),
    "a thousand evaluations with their own limits": own_settings(1_000),
    "thirty thousand units of nothing": many_units(30_000),
    "a folder of a hundred and fifty thousand files": many_names,
    "a zip of eighty megabytes with eight gigabytes of text": zip_of_texts(10_000),
    "a zip of seven hundred megabytes with eight gigabytes of text": zip_of_texts(100_000),
    "a zip with a gigabyte of text": zip_of_texts(100_000, 110),
    "a zip with half a gigabyte of text": zip_of_texts(100_000, 55),
    "many evaluations, long completions and much text": together,
}
ROLLOUT_DENIALS: dict[str, Denial] = {
    "a rollout that claims a hundred million tokens": packed_rollouts(100_000_000, 1),
    "a rollout of three million tokens": packed_rollouts(3_000_000, 1),
    "sixty rollouts of three million tokens": packed_rollouts(3_000_000, 60),
    "ten thousand rollouts of thirty thousand tokens": packed_rollouts(30_000, 10_000),
}
"""Of a run that learned from rewards."""
