"""`verify --explain`: every check says what it compares and what it catches, and an unknown id names those near it."""

import pytest

from workings.errors import RequestError
from workings.evidence.verify.explain import find_checks, text_of, to_json
from workings.evidence.verify.registry import CHECKS


def test_every_check_says_what_it_compares_and_gives_an_example() -> None:
    assert [check.id for check in find_checks("all")] == list(CHECKS)
    silent = [check.id for check in CHECKS.values() if not (check.holds and check.compares and check.catches)]
    assert silent == [], "give `holds` and `catches` to its row, and docstrings to its functions"
    # An example that is at two checks would explain neither.
    assert len({check.catches for check in CHECKS.values()}) == len(CHECKS)


def test_one_check() -> None:
    check, = find_checks("recompute.scores")
    assert text_of(check).splitlines()[0] == "recompute.scores: level 2, scores computed again"
    assert to_json(check)["catches"] == "a wrong answer scored as right, and the scorecard made again"


@pytest.mark.parametrize(("given", "near"), [
    ("recompute.score", "recompute.scores"), ("anchor", "integrity.anchor"),
    ("consistency.anwers", "consistency.answers"), ("qqq", "the id of a check")])
def test_an_unknown_id_names_those_near_it(given: str, near: str) -> None:
    with pytest.raises(RequestError, match="--explain") as found:
        find_checks(given)
    assert near in found.value.expected
