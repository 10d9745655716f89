"""Every field of every file of a real record, changed plausibly and sealed again: a check's name, or the mark."""

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence import other_records, walk
from tests.evidence.trained import score_here, trained_files
from workings.evidence.verify.fields import kinds, rows_of
from workings.evidence.verify.registry import CHECKS
from workings.evidence.verify.unchecked_fields import NO_FILE, unchecked_fields

EACH = 3
"""Fields of each file that are changed here; `proof/witnesses.py` changes all, of every kind of record."""


@pytest.fixture(scope="module", autouse=True)
def scoring() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        yield


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return trained_files(tmp_path_factory.mktemp("trained"))


def test_every_row_names_a_check_that_there_is() -> None:
    rows = [row for kind in kinds() for row in rows_of(kind)]
    assert {row.check for row in rows} - set(CHECKS) == {""}
    assert all(row.check or row.reason for row in rows)


@pytest.mark.slow
def test_the_record_is_a_good_one_before_and_after_sealing_again(record: dict[str, bytes]) -> None:
    for files in (record, walk.resealed(record)):
        found = walk.verified(files)
        assert [f"{one.id}: {one.text}" for one in found.checks if one.verdict == "failed"] == []
        assert found.level == 2


@pytest.mark.slow
def test_each_field_has_a_witness_or_is_said(record: dict[str, bytes]) -> None:
    by_file = defaultdict(list)
    for step in walk.steps_of(record):
        by_file[walk.unit_of(step.name, record)[1:]].append(step)
    assert sum(map(len, by_file.values())) > 600
    draw = random.Random(17)
    chosen = [step for steps in by_file.values() for step in draw.sample(steps, min(EACH, len(steps)))]
    assert [problem for step in chosen if (problem := walk.outcome(record, step))] == []


@pytest.mark.parametrize("kind", ["samples"])
def test_fields_of_other_units(tmp_path: Path, kind: str) -> None:
    files = other_records.KINDS[kind](tmp_path)
    steps = other_records.steps_of(kind, files)
    chosen = random.Random(17).sample(steps, 12)
    assert [problem for step in chosen if (problem := walk.outcome(files, step))] == []


def test_a_check_that_was_not_made_stands_for_nothing(record: dict[str, bytes]) -> None:
    high, low = (len(walk.verified(record, level).unchecked_fields) for level in (2, 0))
    assert low > high
    opened = walk.load(walk.MemoryTree(record))
    assert {one.why for one in unchecked_fields(opened, {}) if one.file == "data/rows.jsonl"
            and one.field == "tokens"} == {
        "consistency.rows was not made"}


def test_a_file_that_nobody_knows_is_named(record: dict[str, bytes]) -> None:
    found = walk.verified(walk.resealed(record | {"a/RESULTS.md": b"98 %\n", "a/env/more.json": b'{"best":1}\n'}))
    named = {(one.file, one.field): one.why for one in found.unchecked_fields}
    assert named["RESULTS.md", ""] == NO_FILE
    assert ("env/more.json", "best") in named
    assert found.to_json()["said"][0].keys() == {"unit", "file", "field", "why"}


@pytest.mark.parametrize(("line", "fake", "verdict"), [
    (b"- Trained on 2,652", b"- Trained on 9,652", "failed"),
    (b"12 of 12 steps", b"12 of 13 steps", "failed"),
    (b"--out ../a-again", b"--out ../a-again training.steps=3", "failed"),
    (b"    workings verify .", b"    workings verify . # not needed", "failed"),
    (b"- Made by", b"The best model that there is.\n- Made by", "failed"),
    (b"Verify it, offline", b"Verify it", "failed"),
    (b"    sha256sum -c SHA256SUMS\n", b"", "failed"),
])
def test_a_readme_is_made_again(record: dict[str, bytes], line: bytes, fake: bytes, verdict: str) -> None:
    assert line in record["a/README.md"]
    found = walk.verified(walk.resealed(record | {"a/README.md": record["a/README.md"].replace(line, fake)}), level=1)
    assert {str(one.verdict) for one in found.checks if one.id == "consistency.views"} == {verdict}
    assert any(one.file == "README.md" for one in found.unchecked_fields) is (verdict == "not_checked")


@pytest.mark.slow
def test_the_example_in_this_repository(tmp_path: Path) -> None:
    files = walk.files_of(Path("examples/runs/quickstart/runs.zip"))
    found = walk.verified(files)
    assert (found.level, found.failed) == (2, 0)
    # Tensors of a real engine: one number format, one size, one moment and one name at a time.
    name = "runs/with-steps/checkpoints/step_000450/model.safetensors"
    for old, new in ((b'"dtype":"F32"', b'"dtype":"I32"'), (b'"shape":[345,64]', b'"shape":[64,345]'),
                     (b"model.norm.weight", b"model.norm.weighs")):
        assert old in files[name]
        lied = walk.resealed(files | {name: files[name].replace(old, new, 1)})
        assert "consistency.tensors" in {one.id for one in walk.verified(lied, level=1).checks
                                         if one.verdict == "failed"}
