"""Records made to harm their reader: nothing runs, nothing is written outside, time and memory are bounded."""

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.denials import completion, zip_of_texts
from tests.evidence.doors import DOORS, MEBIBYTES, SECONDS, VERIFY
from tests.evidence.packs import overwritten
from tests.evidence.verdicts import failures as all_failures
from tests.evidence.verdicts import said
from workings.evidence.verify import limits, verify
from workings.evidence.verify import tree as trees
from workings.record.seal import seal_unit
from workings.record.storage import MEMORY_VARIABLE

pytestmark = pytest.mark.slow  # together they take seconds


failures = partial(all_failures, level=0)


def test_an_archive_that_unpacks_to_far_more_than_it_is(run: Path, monkeypatch) -> None:
    place = zip_of_texts(100_000, 1)(run)
    assert "unpacks to" not in failures(place).get("integrity.readable", "")
    monkeypatch.setattr(trees, "MAX_ADDED_BYTES", 1 << 20)
    assert "1,048,576 more than it has are the most; if you trust it, unpack it" in failures(
        place)["integrity.readable"]


def test_more_text_than_is_looked_through(run: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "TEXT_BYTES", 1000)
    verdict, text = said(run)["content.private"]
    assert verdict == "not_checked"
    assert "bytes, and at most 1,000 are looked through; WORKINGS_READ_MIB=" in text
    assert verify(run, level=0).level == -1
    monkeypatch.setenv(MEMORY_VARIABLE, text.partition(f"{MEMORY_VARIABLE}=")[2].split()[0])
    assert verify(run, level=0).level == 0


def test_scoring_that_takes_too_long(run: Path, monkeypatch) -> None:
    """What was scored until then is scored, and the rest is not checked."""
    monkeypatch.setenv(limits.SECONDS_VARIABLE, "0")
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, verify(run).level) == ("not_checked", 1)
    assert "more than 0 s of processor time and 0.02 s for each completion; WORKINGS_VERIFY_SECONDS=" in text

    monkeypatch.setattr(limits.ScoringTime, "reason_over", property(lambda clock: "enough" if clock.seconds else ""))
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, text.endswith("2 completions were scored again, and no more: enough")) == ("not_checked", True)

    completion("1 1/2 = " * 20, 3)(run)
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, "x1" in text, "x2" in text) == ("failed", True, False)


def test_more_sealed_folders_than_are_looked_at(run: Path, monkeypatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.load.MAX_UNITS", 1)
    (run / "eval/more").mkdir(parents=True)
    (run / "eval/more/SEAL.json").write_text("{}")
    assert "sealed folders, more than 1: verify parts of it" in failures(run)["integrity.readable"]


# --- archives -----------------------------------------------------------------------------------------------------

def large_form(path: Path, claimed: int = -1, small: int = 0xFFFFFFFF) -> Path:
    """The archive with the end records of one beyond 4 GiB; ``claimed``: a fake about its table of contents; ``small``:
    what the old end record says of it."""
    data = path.read_bytes()
    at = data.rindex(b"PK\x05\x06")
    count, size, offset = struct.unpack_from("<HLL", data, at + 10)
    record = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count,
                         size if claimed < 0 else claimed, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, small, 0xFFFFFFFF, 0)
    path.write_bytes(data[:at] + record + locator + end)
    return path


def test_the_form_of_large_archives(run: Path, tmp_path: Path) -> None:
    def packed() -> Path:
        return Path(shutil.make_archive(str(tmp_path / "large"), "zip", run))
    assert verify(large_form(packed())).level == 2
    claims = large_form(packed(), claimed=2**40)
    assert "table of contents claims 1,099,511,627,776 bytes" in failures(claims)["integrity.readable"]
    claims = large_form(packed(), claimed=2**40, small=100)  # a library reads the large form wherever there is one
    assert "table of contents claims 1,099,511,627,776 bytes" in failures(claims)["integrity.readable"]
    beyond = large_form(packed())
    data = bytearray(beyond.read_bytes())
    overwritten(b"PK\x06\x07", 8, struct.pack("<Q", 2**50))(data)
    beyond.write_bytes(data)
    assert "cut off" in failures(beyond)["integrity.readable"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list and read everything")
def test_folders_and_files_that_may_not_be_read(run: Path) -> None:
    (run / "README.md").chmod(0)
    assert "cannot be read" in failures(run)["integrity.sums"]
    (run / "train").chmod(0)
    assert "cannot be listed" in failures(run)["integrity.readable"]
    (run / "train").chmod(0o700)


# --- doors --------------------------------------------------------------------------------------------------------

IN_A_CHILD = ("code as scorer", "template injection", "a regex bomb in a completion")
"""Attacks that are tried here with bounded time and memory; `proof/verify_matrix.py` tries all so."""


@pytest.mark.parametrize("name", DOORS)
def test_a_door(run: Path, tmp_path: Path, run_python, name: str) -> None:
    """Nothing runs, nothing is written outside, no traceback."""
    attack, expected = DOORS[name]
    check, _, words = expected.partition(": ")
    canary = tmp_path / "canary"
    before = {path for path in tmp_path.rglob("*") if "runs" not in path.parts}
    record = attack(run, canary)
    if name in IN_A_CHILD:
        done = run_python("-c", VERIFY.format(memory=MEBIBYTES, seconds=SECONDS), record, cwd=run.parent)
        ids, peak = json.loads(done.stdout.splitlines()[-1])
        assert peak < MEBIBYTES << 10
        failed = dict.fromkeys(ids, words)
    else:
        failed = all_failures(record)
    assert words in failed[check] if check else "integrity.sums" not in failed
    assert not os.path.lexists(canary)
    assert {path for path in tmp_path.rglob("*") if "runs" not in path.parts} == before


# --- limits -------------------------------------------------------------------------------------------------------

def test_values_that_cost_more_than_they_weigh(run: Path, monkeypatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    (run / "config/many.json").write_bytes(b"[" + b"[]," * 10_000 + b"1]")
    reseal.reseal(run)
    assert f"would take 1 MiB in memory, 1 are allowed; {MEMORY_VARIABLE}=3 allows more" in failures(run)["form.json"]
    monkeypatch.setenv(MEMORY_VARIABLE, "3")
    assert not failures(run)


def test_files_are_dropped_where_all_would_take_too_much(run: Path, monkeypatch) -> None:
    for number in range(9):
        (run / f"config/many_{number}.json").write_bytes(b"[" + b"[]," * 5_000 + b"1]")
    reseal.reseal(run)
    monkeypatch.setenv(MEMORY_VARIABLE, "2")
    assert not failures(run)
    monkeypatch.setattr("workings.evidence.verify.limits.MAX_TOTAL_FACTOR", 2)
    assert "all that is read of this record would take more than 4 MiB" in failures(run)["form.json"]


def test_more_than_is_looked_at(run: Path, monkeypatch) -> None:
    monkeypatch.setattr(trees, "MAX_ENTRIES", 10)
    assert "more than 10 files and folders" in failures(run)["integrity.readable"]


def test_time_and_memory_are_bounded(tmp_path: Path) -> None:
    """A record of empty lists, long lines and repeated keys, checked in a child with 1 GiB of memory."""
    (tmp_path / "train").mkdir()
    (tmp_path / "run_manifest.json").write_bytes(b"[" + b"[]," * 300_000 + b"1]")
    (tmp_path / "train/metrics.jsonl").write_bytes(b'{"step":' * 1_000_000 + b"\n" * 300_000)
    (tmp_path / "README.md").write_bytes(b"\n" * 900_000 + b"<your " * 10_000)
    (tmp_path / "train/training_log.txt").write_bytes(b"eyJ-" * 500_000 + b"/home/" * 100_000)
    seal_unit(tmp_path, "run", "complete", None)
    code = ("import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
            "from pathlib import Path; from workings.evidence.verify import verify\n"
            "found = verify(Path(sys.argv[1]), level=1); print(found.level, found.failed)\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    level, failed = done.stdout.split()
    assert (int(level), int(failed) > 3) == (-1, True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 60  # processor time, not wall time


# --- values of the wrong kind -------------------------------------------------------------------------------------

HOSTILE = [None, [], {}, "x", "", -1, 1.5, 1e308, True, {"absent": "x"}, [[[[]]]], "../../etc/passwd", [1, "a", None]]


def places(value: object, place: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    return [place] + [found for key, one in inner for found in places(one, (*place, key))]


def put(value: object, place: tuple, hostile: object) -> object:
    if not place:
        return hostile
    if isinstance(value, dict):
        return {key: put(one, place[1:], hostile) if key == place[0] else one for key, one in value.items()}
    assert isinstance(value, list)
    return [put(one, place[1:], hostile) if index == place[0] else one for index, one in enumerate(value)]


@pytest.mark.parametrize("name", [
    "run_manifest.json", "config/resolved.json", "train/metrics.jsonl", "train/events.jsonl", "data/rows.jsonl",
    "eval/test/eval_summary.json", "eval/test/eval_config.json", "eval/test/predictions.jsonl"])
def test_a_value_of_the_wrong_kind_fails_a_check_and_never_the_checker(run: Path, name: str) -> None:
    """Some of all places x values, the same ones each time."""
    file, lines = run / name, name.endswith(".jsonl")
    original = file.read_bytes()
    value = [json.loads(line) for line in original.splitlines()] if lines else json.loads(original)
    cases = [(place, hostile) for place in places(value) for hostile in HOSTILE][3::max(1, len(places(value)))]
    assert len(cases) >= 10
    for place, hostile in cases:
        changed = put(value, place, hostile)
        rows = changed if lines and isinstance(changed, list) else [changed]
        file.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        unit = run / "eval/test" if name.startswith("eval") else run
        if os.path.lexists(unit / "SEAL.json"):
            (unit / "SEAL.json").unlink()
        (unit / "SHA256SUMS").unlink(missing_ok=True)
        seal_unit(unit, "eval" if unit is not run else "run", "complete", None)
        assert verify(run, level=1).to_json()["checks"], (place, hostile)


@pytest.mark.parametrize("root", [[], {"a": 1}, None, 4])
def test_a_root_that_is_no_text_is_not_that_of_the_sums(run: Path, root: object) -> None:
    reseal.edit_json(run / "SEAL.json", lambda seal: seal | {"root": root})
    assert "integrity.sealed" in failures(run)
