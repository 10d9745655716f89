"""Evaluations of these tests score in the test's own process."""

import pytest

from tests.evaluation.making import score_here


@pytest.fixture(autouse=True)
def scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scoring process, but for a judge and for scorers of a file."""
    score_here(monkeypatch)
