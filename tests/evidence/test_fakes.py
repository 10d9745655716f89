"""Fakes of every kind about a real record, sealed again: the check that finds each, or the mark."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence import every_file, fakes, fakes_about_ends, fakes_elsewhere, other_records, walk
from tests.evidence.trained import score_here, trained_files

EVERY = 3
"""Every third fake is told here; `proof/witnesses.py` tells all."""
SOME = 20
"""Fakes about every file that are told here."""
CHOSEN = [(kind, name) for kind, table in fakes.KINDS.items() for name in list(table)[::EVERY]]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        yield trained_files(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize(("kind", "name"), CHOSEN, ids=lambda value: value)
def test_caught_or_marked(record: dict[str, bytes], kind: str, name: str) -> None:
    fake, expected = fakes.KINDS[kind][name]
    failed, more = fakes.told(record, fake)
    assert expected in failed if expected != fakes.SAID else (failed, bool(more)) == ([], True)


@pytest.mark.slow
def test_fakes_about_every_file(record: dict[str, bytes]) -> None:
    told, honest = every_file.fakes_about(record), walk.verified(record)
    assert len(told) > 500
    files = {name for name in record if not name.endswith(every_file.SEALING)}
    assert {name.partition(":")[0] for name in told} >= files
    chosen = random.Random(17).sample(sorted(told), SOME)
    assert [name for name in chosen if not any(every_file.outcome(record, honest, told[name]))] == []


def test_a_file_that_was_taken_out_is_named(record: dict[str, bytes]) -> None:
    name = "a/train/training_log.txt"
    failed, named = every_file.outcome(record, walk.verified(record), lambda files: files.pop(name))
    assert failed == []
    assert f"{name} (it is not there, and this version always writes it)" in named


def test_a_file_of_more_fields_than_are_looked_at_is_named(record: dict[str, bytes],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.unchecked_fields.MAX_REMEMBERED", 3)
    found = walk.verified(record)
    assert found.failed == 0
    assert "a/data/digests.json (it has more fields than are looked at)" in {
        each.text for each in found.unchecked_fields}


def test_another_seed_told_everywhere_passes_all_but_a_replay(record: dict[str, bytes]) -> None:
    changed = dict(record)
    fakes.another_seed_told_everywhere(changed)
    found = walk.verified(walk.resealed(changed))
    assert (found.failed, found.level) == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["samples", "packs"])
def test_fakes_about_records_of_other_kinds(record: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    """Those that need no training; `proof/fakes.py` tells all."""
    _all_told(record, tmp_path, kind, fakes_elsewhere.KINDS[kind])


@pytest.mark.parametrize("kind", sorted(fakes_about_ends.OF_ENDS))
def test_fakes_about_ends_and_predictions_from_elsewhere(record: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    _all_told(record, tmp_path, kind, fakes_about_ends.OF_ENDS[kind])


def _all_told(record: dict[str, bytes], tmp_path: Path, kind: str, table: dict[str, tuple[fakes.Fake, str]]) -> None:
    del record  # which has patched the scorer
    files = other_records.KINDS[kind](tmp_path)
    honest = walk.verified(files)
    assert honest.failed == 0
    told = {name: fakes_elsewhere.told(files, honest, fake) for name, (fake, _) in table.items()}
    found = {name: fakes_elsewhere.FOUND if failed else fakes_elsewhere.NAMED if named else fakes_elsewhere.MISSED
             for name, (failed, named) in told.items()}
    assert found == {name: expected for name, (_, expected) in table.items()}
