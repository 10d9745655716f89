"""The scorer `math`: sets, intervals, matrices and algebra, labelled by hand."""

import json
import time
from pathlib import Path

import pytest

from workings.errors import RequestError
from workings.scoring import mathematics
from workings.scoring.items import Item
from workings.scoring.judge import Judgement, judge
from workings.scoring.mathematics import same_mathematics
from workings.scoring.scorers import get_scorer, scorer_version
from workings.scoring.settings import ScoringSettings

ROWS = [json.loads(line) for line in Path(__file__).with_name("mathematics.jsonl").read_text("utf-8").splitlines()]


def judged(completion: str, expected: str, question: str = "p") -> Judgement:
    return judge(Item(id="a", prompt=question, expected_answer=expected), completion, get_scorer("math").score,
                 ScoringSettings(scorer="math"))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_verify", reason="the extra `score` is not installed")
    monkeypatch.setattr(mathematics, "LIMIT_SECONDS", 600.0)  # a busy machine must not decide what is right


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.full), 15])
def test_labelled_answers_are_judged_as_labelled(library: None, every: int) -> None:
    wrong = [(row, found) for row in ROWS[::every] if ((found := judged(row["completion"], row["expected"])).score == 1
                                                       ) != row["right"]]
    assert wrong == [], "\n".join(map(str, wrong))
    assert sum(not row["right"] for row in ROWS) >= 100


@pytest.mark.parametrize(("given", "expected", "same"), [
    (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}", False), (r"-\frac{1}{2^{99}}", r"\frac{1}{2^{99}}", False),
    (r"\frac{1}{19!}", r"\frac{1}{20!}", False), ("e^{-51}", "e^{-50}", False),
    (r"\frac{x}{2^{98}}", r"\frac{x}{2^{99}}", False),
    (r"\frac{2\pi}{10^{18}}", r"\frac{\pi}{10^{18}}", False), ("10^{10}", r"\sqrt{10^{20}+1}", False),
    ("(10^{-21}, 1)", "(10^{-20}, 1)", False), (r"\{10^{-21}, 1\}", r"\{10^{-20}, 1\}", False), ("0", "2^{-99}", False),
    ("2^{-99}", r"\frac{1}{2^{99}}", True), (r"\frac{\sqrt{8}}{2^{99}}", r"\frac{\sqrt{2}}{2^{98}}", True),
    ("e^{-50}", r"\frac{1}{e^{50}}", True),
    (r"\{3, 1\}", r"\{1, 3\}", True), ("x^2+2x+1", "(x+1)^2", True), (r"0.333333\pi", r"\frac{\pi}{3}", False),
])
def test_small_values_are_compared_exactly(library: None, given: str, expected: str, same: bool) -> None:
    assert same_mathematics(given, expected) is same


def test_no_large_power_is_worked_out(library: None) -> None:
    for tower in ("10^{10^{10}}", "9**9**9", "2^{123456}", "123456!", "3!!"):
        assert not same_mathematics(tower, "5")


# The first end may arrive in a callback of the garbage collector, which drops it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_takes_too_long_ends(library: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics, "LIMIT_SECONDS", 1e-4)
    monkeypatch.setattr(mathematics, "AGAIN_SECONDS", 1e-4)
    mathematics.load()
    with pytest.raises(TimeoutError, match="needed more than"):
        same_mathematics(r"(x+1)^2 + \sin^2 y", r"x^2+2x+1+\sin^2 y")


def test_a_dropped_end_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the signal arrives in a callback of the garbage collector."""
    monkeypatch.setattr(mathematics, "LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(mathematics, "AGAIN_SECONDS", 0.05)
    dropped = []

    def compute() -> None:
        begun = time.process_time()
        while time.process_time() < begun + 20:
            sum(range(1000))

    def asked(*texts: str) -> bool:
        try:
            compute()
        except mathematics.TooLong as end:
            dropped.append(end)
        compute()
        return False

    monkeypatch.setattr(mathematics, "asked_libraries", asked)
    with pytest.raises(TimeoutError, match="needed more than"):
        same_mathematics("x+1", "1+x")
    assert len(dropped) == 1


def test_its_version_names_the_libraries(library: None) -> None:
    name, version = scorer_version("math")
    assert (name, version.partition(" ")[0]) == ("math", "4")
    assert all(library in version for library in mathematics.LIBRARIES)


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics, "LIBRARIES", ("no-such-library",))
    with pytest.raises(RequestError, match="needs math-verify") as caught:
        get_scorer("math")
    assert "'workings[score]'" in caught.value.try_next
