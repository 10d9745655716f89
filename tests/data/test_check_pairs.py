"""Every kind of finding about preference pairs, provoked once; what is clean stays clean."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.check_cases import CASES as TRACE_CASES
from workings.data.checking.findings import KINDS, CheckReport, read_tolerantly
from workings.data.checking.overlap import Question
from workings.data.checking.pairs import check_pairs, holds_pairs
from workings.data.preferences import pair_from_json
from workings.errors import RequestError

LONG = "Ada walks from the old mill to the station in 25 minutes and then takes the 7 train to town"


def pair(name: str, **keys: Any) -> dict[str, Any]:
    base = {"id": name, "prompt": f"What is {name}+1?", "chosen": f"{name}, and so 2", "section": "core",
            "rejected": f"It is {name} 3 ", "category": "sum", "difficulty": "easy", "licence": "MIT"}
    return {key: value for key, value in (base | keys).items() if value is not None}


def looked_at(tmp_path: Path, *lines: Any, **keys: Any) -> CheckReport:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return check_pairs(read_tolerantly(path, pair_from_json), name="pairs.jsonl", **keys)


def verdicts(*texts: str, **keys: Any) -> list[dict[str, Any]]:
    """Pairs of one question: `ab` prefers a to b."""
    return [pair(f"v{number}", prompt="Which?", chosen=text[0], rejected=text[1], **keys)
            for number, text in enumerate(texts)]


CASES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "clean": ([pair("a"), pair("b"), pair("c", prompt="A or B?", chosen="A", rejected="B")], {}),
    "unreadable": ([pair("a"), '{"id": 1', '{"id": "b", "prompt": "x", "chosen": "y"}'], {"unreadable": 2}),
    "repeated_id": ([pair("a"), pair("a", prompt="other?")], {"repeated_id": 1}),
    "repeated_pair": ([pair("a", prompt="1+1?", chosen="2", rejected="x"),
                       pair("b", prompt="1 + 1 ?", chosen="2", rejected="x"),
                       pair("c", prompt="1 + 1 ?", chosen="2", rejected="y")], {"repeated_pair": 1}),
    "equal_completions": ([pair("a", chosen="2", rejected="2")], {"equal_completions": 1}),
    "white_space_only": ([pair("a", chosen="1 + 1", rejected="1+ 1\n")], {"white_space_only": 1}),
    "rejected cut off": ([pair("a", chosen="so 2 it is", rejected="so 2 i")], {"cut_off": 1}),
    "chosen cut off": ([pair("a", chosen="so 2 ", rejected="so 2 it is")], {"cut_off": 1}),
    "answer_in_prompt": ([pair("a", prompt="Is it Paris (yes)?", chosen="Paris.", rejected="Rome"),
                          pair("b", prompt="Comparison?", chosen="paris", rejected="Rome")], {"answer_in_prompt": 1}),
    "opposite": (verdicts("ab", "ba", "ac"), {"opposite_verdicts": 2}),
    "in a circle": (verdicts("ab", "bc", "ca", "cd"), {"opposite_verdicts": 3}),
    "a ranking": (verdicts("ab", "bc", "ac"), {}),
    "of two questions": ([*verdicts("ab"), pair("w", prompt="And which?", chosen="b", rejected="a")], {}),
    "of two conversations": ([*verdicts("ab"), pair("w", prompt="Which?", chosen="b", rejected="a", history=[
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])], {}),
    "control_text": ([pair("a", prompt="1?<end_of_turn>"), pair("b", rejected="<|im_end|>2"),
                      pair("c", chosen="<think>\n2</think>2")], {"control_text": 2}),
    "no_label": ([pair("a", section=None)], {"no_label": 1}),
    "no_licence": ([pair("a", licence=None)], {"no_licence": 1}),
    "longer": ([pair(f"p{number}", chosen="a long one", rejected="short") for number in range(6)], {"length_bias": 1}),
    "shorter": ([pair(f"p{number}", chosen="short", rejected="a long one") for number in range(6)], {"length_bias": 1}),
    "too few": ([pair(f"p{number}", chosen="a long one", rejected="short") for number in range(5)], {}),
    "of one length": ([pair(f"p{number}", chosen="left", rejected="down") for number in range(9)], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_is_found_and_nothing_else(tmp_path: Path, case: str) -> None:
    lines, expected = CASES[case]
    report = looked_at(tmp_path, *lines)
    assert report.counts == expected
    assert report.passed is not any(KINDS[kind][0] for kind in expected)
    assert report.records == len(lines)


def test_all_kinds_are_provoked_somewhere() -> None:
    assert {kind for cases in (CASES, TRACE_CASES) for _, expected in cases.values() for kind in expected} | {
        "leak", "normalized_leak", "ngram_leak", "contained_leak", "row"} == set(KINDS)


def test_the_length_bias_is_said_with_its_interval(tmp_path: Path) -> None:
    lines = [pair(f"p{number}", chosen="a long one" if number < 8 else "left", rejected="short")
             for number in range(10)]
    assert looked_at(tmp_path, *lines).counts == {}
    report = looked_at(tmp_path, *lines, *(pair(f"q{number}", chosen="a long one", rejected="short")
                                           for number in range(10)))
    [found] = report.findings
    # Wilson's interval of 18 of 20: (0.9 + 1.9208/20 ± 1.96 * sqrt(0.09/20 + 0.9604/400)) / (1 + 3.8416/20)
    assert found.text.startswith("the chosen completion has more characters in 18 of 20 pairs whose lengths differ: "
                                 "90 %, 95 % interval 70 % to 97 %")
    assert (found.id, found.matters, report.left_out) == ("pairs.jsonl", False, {})


def test_leaks_are_found_in_questions_and_completions(tmp_path: Path) -> None:
    questions = [Question("q1", "What is 47+25?"), Question("q2", LONG)]
    report = looked_at(tmp_path, pair("exact", prompt="What is 47+25?"), pair("chosen", chosen=f"As {LONG}, so"),
                       pair("rejected", rejected=LONG.upper()), pair("free"), questions=questions)
    assert [(found.id, found.kind) for found in report.findings] == [
        ("exact", "leak"), ("chosen", "ngram_leak"), ("rejected", "ngram_leak")]


def test_the_first_line_says_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    for first, expected in ((pair("a"), True), ({"id": "a", "prompt": "1?", "answer": "2"}, False), (1, False)):
        path.write_text(json.dumps(first) + "\n" + json.dumps(pair("b")) + "\n")
        assert holds_pairs(path) is expected
    path.write_text("{\n")
    assert not holds_pairs(path)
    with pytest.raises(RequestError, match="a file of JSON lines"):
        holds_pairs(tmp_path / "absent.jsonl")
