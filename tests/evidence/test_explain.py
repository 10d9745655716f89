"""`verify --explain`: every check says what it compares and what it catches, and an unknown id names those near it."""

import pytest

from workings.errors import RequestError
from workings.evidence.verify.explain import all_checks, find_checks, text_of, to_json
from workings.evidence.verify.registry import CHECKS


def test_every_check_says_what_it_compares_and_gives_an_example() -> None:
    assert [check.id for check in find_checks("all")] == [check.id for check in all_checks()]
    assert {check.id for check in all_checks()} == {"integrity.readable", *CHECKS}
    silent = [check.id for check in all_checks() if not (check.title and check.compares and check.example)]
    assert silent == [], "give `example=` to its @check, and a docstring to its function"
    # An example that stands at two checks would explain neither.
    assert len({check.example for check in all_checks()}) == len(all_checks())


def test_one_check() -> None:
    check, = find_checks("recompute.scores")
    assert text_of(check).splitlines()[0] == "recompute.scores: level 2, scores computed again"
    assert to_json(check)["catches"] == "a wrong answer scored as right, and the scorecard made again"


@pytest.mark.parametrize(("given", "near"), [
    ("recompute.score", "recompute.scores"), ("anchor", "integrity.anchor"),
    ("consistency.sceds", "consistency.seeds"), ("qqq", "the id of a check")])
def test_an_unknown_id_names_those_near_it(given: str, near: str) -> None:
    with pytest.raises(RequestError, match="--explain") as found:
        find_checks(given)
    assert near in found.value.expected
