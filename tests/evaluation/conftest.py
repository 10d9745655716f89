"""Evaluations of these tests score in the test's own process."""

from collections.abc import Iterator

import pytest

from tests.evaluation.making import score_here


@pytest.fixture(autouse=True, scope="module")
def scoring() -> Iterator[None]:
    """No scoring process, but for a judge and for scorers of a file."""
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        yield
