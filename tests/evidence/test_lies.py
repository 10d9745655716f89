"""Lies of every kind about a real record, sealed again: the check that finds each, or the mark."""

from collections.abc import Iterator

import pytest

from tests.evidence import lies
from tests.evidence.trained import score_here, trained_files

EVERY = 3
"""Every third lie is told here; `proof/witnesses.py` tells all."""
CHOSEN = [(kind, name) for kind, table in lies.KINDS.items() for name in list(table)[::EVERY]]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        yield trained_files(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize(("kind", "name"), CHOSEN, ids=lambda value: value)
def test_caught_or_marked(record: dict[str, bytes], kind: str, name: str) -> None:
    lie, expected = lies.KINDS[kind][name]
    failed, more = lies.told(record, lie)
    assert expected in failed if expected != lies.SAID else (failed, bool(more)) == ([], True)
