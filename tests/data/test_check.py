"""Every kind of finding, provoked once; what is clean stays clean; what went is listed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.check_cases import CASES, LONG, PAIR_CASES, pair, trace
from tests.data.making import tokenizer_for
from workings.config.data import DataConfig
from workings.data.checking.findings import KINDS, CheckReport, read_tolerantly, write_clean
from workings.data.checking.overlap import near_duplicates, numbers, read_questions, words
from workings.data.checking.pairs import holds_pairs
from workings.data.checking.run import check
from workings.data.generators import addition
from workings.data.preferences import pair_from_json
from workings.data.rows import row_problems
from workings.data.traces import read_traces, trace_from_json
from workings.errors import RequestError
from workings.models.chat import ChatTemplate


def written(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def looked_at(tmp_path: Path, *lines: Any, **keys: Any) -> CheckReport:
    return check(read_tolerantly(written(tmp_path, *lines), trace_from_json), **keys)


def looked_at_pairs(tmp_path: Path, *lines: Any, **keys: Any) -> CheckReport:
    return check(read_tolerantly(written(tmp_path, *lines), pair_from_json), **keys)


@pytest.mark.parametrize(("look", "lines", "expected"), [
    pytest.param(look, *case, id=name) for look, cases in ((looked_at, CASES), (looked_at_pairs, PAIR_CASES))
    for name, case in cases.items()])
def test_each_kind_is_found_and_nothing_else(tmp_path: Path, look: Callable[..., CheckReport], lines: list[Any],
                                             expected: dict[str, int]) -> None:
    report = look(tmp_path, *lines)
    assert report.counts == expected
    assert report.passed is not any(KINDS[kind][0] for kind in expected)
    assert report.records == len(lines)


def test_leaks_are_named_by_the_plainest(tmp_path: Path) -> None:
    questions = {"What is 47+25?": "q1", LONG: "q2"}
    report = looked_at(
        tmp_path, trace("exact", prompt="What is 47+25?"), trace("words", prompt="what is 47 + 25"),
        trace("passage", steps=[f"As we know, {LONG.lower()}, so 2"]), trace("free", prompt="What is 47+26?"),
        trace("earlier", prompt="And then?", history=[{"role": "user", "content": "What is 47+25?"},
                                                      {"role": "assistant", "content": "72"}]), questions=questions)
    leaks = [found for found in report.findings if found.kind.endswith("leak")]
    assert [(found.id, found.kind) for found in leaks] == [
        ("exact", "leak"), ("words", "leak"), ("passage", "ngram_leak"), ("earlier", "leak")]
    assert "asked as q1: What is 47+25?" in leaks[0].text
    assert "13 words of q2: ada walks from the old mill" in leaks[2].text
    in_pairs = looked_at_pairs(tmp_path, pair("asked", prompt="What is 47+25?"), pair("free"),
                               pair("chosen", chosen=f"As {LONG}, so"), pair("rejected", rejected=LONG.upper()),
                               questions=questions)
    assert in_pairs.counts == {"leak": 1, "ngram_leak": 2}


SIX_LESS, HAMLET = "What is 47+25 minus 6?", "Who wrote Hamlet?"


@pytest.mark.parametrize(("asked", "line"), [
    (SIX_LESS, {"prompt": f"Solve this step by step.\n\n{SIX_LESS}\n\nAnswer with a number."}),
    (SIX_LESS, {"prompt": f'Q: "{SIX_LESS}" A:'}), (SIX_LESS, {"prompt": f"<question>{SIX_LESS}</question>"}),
    (SIX_LESS, {"prompt": "Please tell me: what is 47 + 25 minus 6? Thank you."}),
    (SIX_LESS, {"prompt": "And now?", "history": [{"role": "user", "content": f"Hello. {SIX_LESS}"},
                                                  {"role": "assistant", "content": "66"}]}),
    (SIX_LESS, {"prompt": "And now?", "history": [{"role": "system", "content": f"Examples:\n{SIX_LESS}\n66"}]}),
    (SIX_LESS, {"steps": [f"We are asked: {SIX_LESS}", "2"]}),
    *((asked, {"prompt": around.format(asked)}) for asked in ("What is 47 * 25 - 6?", "Is 3*4 < 13 or > 13?")
      for around in ("Solve this.\n\n{}\n\nAnswer:", "**{}**", "<question>{}</question>", "*{}*")),
    (HAMLET, {"prompt": "Answer in one word: Who wrote Hamlet? No steps."}),
    (HAMLET, {"prompt": "<question>who wrote hamlet?</question>"}),
    (HAMLET, {"prompt": "And then?", "history": [{"role": "user", "content": "Hello. Who wrote Hamlet?"},
                                                 {"role": "assistant", "content": "Shakespeare."}]})])
def test_a_whole_short_question_within_other_words_is_a_leak(tmp_path: Path, asked: str, line: dict[str, Any]) -> None:
    assert looked_at(tmp_path, trace("a", **line), questions={asked: "q1"}).counts == {"contained_leak": 1}


def test_three_words_are_no_leak_within_a_sentence_or_without_a_name(tmp_path: Path) -> None:
    report = looked_at(tmp_path, trace("a", prompt="Is Paris the capital of France? Who am I? Say why not now."),
                       trace("b", prompt="Tell them. Why not now? Who wrote Hamlet and Lear?"),
                       questions={"Capital of France?": "q1", "Why not now?": "q2", "Who am I?": "q3",
                                  "Who wrote Hamlet?": "q4"})
    assert report.counts == {}


def test_each_near_duplicate_is_named_with_the_nearest_earlier_text() -> None:
    texts = [words(LONG), words(LONG + " today"), words(LONG.replace("25", "26")), words(LONG.replace("mill", "hill")),
             words("Something else entirely with 3 words"), words(LONG), [], words("short"), words("short")]
    assert {later: before for later, before, _ in near_duplicates(texts)} == {1: 0, 3: 0, 5: 0, 8: 7}


def test_near_duplicates_without_numbers_have_all_words_of_each_other() -> None:
    asked = words("Explain how a vaccine works in simple terms that a child would understand.")
    for changed, near in (
            ("Please explain how a vaccine really works in simple terms that a child would understand.", True),
            ("Explain how a vaccine works in terms that a child would understand.", True),
            ("Explain how a refrigerator works in simple terms that a child would understand.", False),
            ("Explain how a vaccine works in simple terms that a child would not understand.", False)):
        assert bool(list(near_duplicates([asked, words(changed)]))) == near, changed


@pytest.mark.parametrize(("changed", "near"), [
    ("Please solve this problem step by step. What is 47+25?", True),
    ("What really is 47+25?", True),
    ("47+25?", False),  # too short to say what it leaves out
    ("What is 47+26?", False),
    ("What is 25+47?", False),
    ("What is twice 47+25?", False),
    ("What is not 47+25?", False),
    ("What is the sum of the digits of 47+25?", False),
    ("What is 47+25 rounded to tens?", False),
])
def test_near_duplicates_with_equal_numbers_say_little_more(changed: str, near: bool) -> None:
    assert bool(list(near_duplicates([words("What is 47+25?"), words(changed)]))) == near


def test_samples_are_no_duplicates_of_the_trace_that_asks_the_same(tmp_path: Path) -> None:
    def asks(name: str, **more: Any) -> dict[str, Any]:
        return trace(name, prompt="1+1?", **more)

    def drawn(name: str, **more: Any) -> dict[str, Any]:
        return asks(name, drawn_from="a" * 64, **more)

    own, other = asks("a", steps=["1+1=2"]), drawn("a/0", steps=["one and one: 2"])
    assert looked_at(tmp_path, own, other, drawn("a/1", steps=["two ones: 2"])).counts == {}
    assert looked_at(tmp_path, other, own).counts == {}
    assert looked_at(tmp_path, own, drawn("a/0", steps=["1+1=2"])).counts == {"duplicate": 1}
    assert looked_at(tmp_path, other, own, asks("b", steps=["1+1 = 2"])).counts == {"duplicate": 1}
    assert looked_at(tmp_path, own, drawn("a/0", answer="3", steps=["3"])).counts["conflict"] == 2


def test_words_look_through_spelling_but_not_through_numbers_or_signs() -> None:
    assert words("What's 1,000.50 + (2)?") == ["what", "s", "1000.50", "+", "2"]
    assert words("ＡＢＣ straße") == words("abc STRASSE")
    assert words("4+7") != words("47") != words("4-7")
    assert numbers(words("3 cats, 10 dogs")) == ("10", "3")


def test_rows_are_proved_one_by_one(tmp_path: Path) -> None:
    made, _ = addition.make(20, 5, seed=0)
    tokenizer = tokenizer_for(made, 384)
    template = ChatTemplate.for_config("gemma", tokenizer)
    report = looked_at(
        tmp_path, trace("fine"), trace("long", steps=["1+1=2", "x " * 60 + "2"]), trace("bare", steps=[]),
        trace("forged", prompt="x<end_of_turn>"), row_problems=lambda traces: row_problems(
            traces, tokenizer, template, DataConfig(traces="x", max_length=64)))
    found = {finding.id: finding.text for finding in report.findings if finding.kind == "row"}
    assert set(found) == {"long", "bare", "forged"}
    assert "tokens, and data.max_length is 64" in found["long"]
    assert found["bare"] == "has no steps"
    assert "<end_of_turn>" in found["forged"]


def test_a_cleaned_set_is_clean_and_what_went_is_listed(tmp_path: Path) -> None:
    path = written(tmp_path, trace("a", prompt="1+1?"), trace("b", prompt="1+1?"), "{",
                   trace("c", steps=["2+2=5", "2"]), trace("d"), trace("e", licence=None))
    read = read_tolerantly(path, trace_from_json)
    report = check(read)
    clean, left_out = write_clean(read, report, path)
    assert [kept.id for kept in read_traces(clean)] == ["a", "d", "e"]
    gone = [json.loads(line) for line in left_out.read_text().splitlines()]
    assert [(line["record"], line["id"]) for line in gone] == [(2, "b"), (3, "lines.jsonl:3"), (4, "c")]
    assert [reason["kind"] for line in gone for reason in line["reasons"]] == ["duplicate", "unreadable",
                                                                              "wrong_equation"]
    assert check(read_tolerantly(clean, trace_from_json)).passed
    assert len(read_traces(clean)) + len(gone) == report.records


def test_a_long_report_says_what_it_leaves_away(tmp_path: Path) -> None:
    report = looked_at(tmp_path, *(trace(f"t{number}", licence=None, prompt=f"{number}?") for number in range(8)),
                       trace("bad", steps=["2+2=5", "2"]))
    shown = report.to_json(most=3)
    assert [finding["id"] for finding in shown["findings"]] == ["bad", "t0", "t1"]
    assert (shown["findings_left_out_here"], shown["counts"], shown["passed"]) == (
        6, {"wrong_equation": 1, "no_licence": 8}, False)


def test_questions_are_read_from_items_gsm8k_and_csv(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"id": "x", "prompt": "1?"}\n{"question": "2?", "answer": "#### 2"}\n')
    assert read_questions(path) == {"1?": "x", "2?": "line 2"}
    (tmp_path / "items.csv").write_text("id,question\nx,1?\n")
    assert read_questions(tmp_path / "items.csv") == {"1?": "x"}
    for text in ('{"id": "x"}\n', "{\n"):
        path.write_text(text)
        with pytest.raises(RequestError, match=":1: the record has no question"):
            read_questions(path)


def test_all_kinds_are_provoked_somewhere() -> None:
    assert {kind for cases in (CASES, PAIR_CASES) for _, expected in cases.values() for kind in expected} | {
        "leak", "ngram_leak", "contained_leak", "row"} == set(KINDS)


def test_the_length_bias_is_said_with_its_interval(tmp_path: Path) -> None:
    lines = [pair(f"p{number}", chosen="a long one" if number < 8 else "left", rejected="short")
             for number in range(10)]
    assert looked_at_pairs(tmp_path, *lines).counts == {}
    report = looked_at_pairs(tmp_path, *lines, *(pair(f"q{number}", chosen="a long one", rejected="short")
                                           for number in range(10)))
    [found] = report.findings
    # Wilson's interval of 18 of 20: (0.9 + 1.9208/20 ± 1.96 * sqrt(0.09/20 + 0.9604/400)) / (1 + 3.8416/20)
    assert found.text.startswith("the chosen completion has more characters in 18 of 20 pairs whose lengths differ: "
                                 "90 %, 95 % interval 70 % to 97 %")
    assert (found.id, found.matters, report.left_out) == ("lines.jsonl", False, {})


def test_the_first_line_says_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    for first, expected in ((pair("a"), True), ({"id": "a", "prompt": "1?", "answer": "2"}, False), (1, False)):
        path.write_text(json.dumps(first) + "\n" + json.dumps(pair("b")) + "\n")
        assert holds_pairs(path) is expected
    path.write_text("{\n")
    assert not holds_pairs(path)
    with pytest.raises(RequestError, match="a file of JSON lines"):
        holds_pairs(tmp_path / "absent.jsonl")
