"""Numbers with sources: found where they stand, compared at the digits they show, missed when they have none."""

import json

import pytest

from workings.errors import RecordError, RequestError
from workings.evidence.claims import (
    ClaimedText,
    ClaimSource,
    agrees,
    claims_json,
    numbers_in,
    parse_claims,
    pointer_to,
    resolve,
    unsourced,
)
from workings.evidence.writeup import published, words_in
from workings.publish.report_claims import Column, report_claims

SOURCE = ClaimSource(file="a.json", pointer="/x")


@pytest.mark.parametrize(("text", "numbers"), [
    ("98.8 % of 600 items", ["98.8", "600"]),
    ("+83.0 points (+79.8 to \u22125.8), p = 2.6e-110.", ["+83.0", "+79.8", "\u22125.8", "2.6e-110"]),
    ("1,234 and 1\u202f234\u202f567 of 12.", ["1,234", "1\u202f234\u202f567", "12"]),
    ("gemma-2b, v0.1.0, step_000200, a/7, #3, 2026-11-20, https://x.y/9, `9`, x9", []),
    ("<p class=\"kicker\">7</p><svg><text>8</text></svg><b>9</b>&#39;", ["9"]),
    ("minus-5 and -5 (-5)", ["-5", "-5"]),
])
def test_numbers_are_found(text: str, numbers: list[str]) -> None:
    assert [number for _, number in numbers_in(text)] == numbers
    assert all(text[at:at + len(number)] == number for at, number in numbers_in(text))


@pytest.mark.parametrize(("text", "value", "unit", "digits", "right"), [
    ("98.8", 0.9883, "percent", 1, True), ("98.9", 0.9883, "percent", 1, False), ("99", 0.9883, "percent", 0, True),
    ("1,234", 1234, "number", 0, True), ("1\u202f234", 1234, "number", 0, True), ("1235", 1234, "number", 0, False),
    ("+83.0", 0.83, "points", 1, True), ("\u221283.0", -0.83, "points", 1, True), ("83.0", -0.83, "points", 1, False),
    ("2.6e-110", 2.61e-110, "number", 1, True), ("2.7e-110", 2.61e-110, "number", 1, False),
    ("1.5", 1.5 * 2**30, "GiB", 1, True), ("1", True, "number", 0, False), ("nan", float("nan"), "number", 0, False),
    ("0.001", 2.6e-110, "below", 3, True), ("0.001", 0.002, "below", 3, False), ("0.5", 0.1, "below", 1, False),
    ("1", "1", "number", 0, False), ("0", {"absent": "none"}, "number", 0, False),
])
def test_a_number_agrees_with_its_source_at_its_digits(text, value, unit, digits, right) -> None:
    assert agrees(text, value, unit, digits) is right


@pytest.mark.parametrize("opening", ["<pre ", "<!--", "`", "<section aria-labelledby=\"samples\">",
                                     "<p class=\"kicker\">", "\t", "<!-- from a: "])
def test_openings_without_an_end_are_read_once(opening: str) -> None:
    """Patterns that search on from each opening would take minutes for these 400 kB."""
    text = opening * (400_000 // len(opening)) + "\n\n"
    assert [number for _, number in numbers_in(text + "7")] == ["7"]
    assert published(text, lambda name, line: None) == (text, [])


def test_pointers() -> None:
    assert resolve({"a/b": [{"~": 3}]}, pointer_to("a/b", "0", "~")) == 3
    assert resolve([1, 2], "") == [1, 2]
    for pointer in ("a", "/b", "/0", "/a/9", "/a/x"):
        with pytest.raises(RecordError):
            resolve({"a": [1]}, pointer)


def test_a_text_remembers_where_its_numbers_stand() -> None:
    text = ClaimedText("a.md").say("of ").number(1234, SOURCE).say(" items ").number(0.9883, SOURCE, "percent", 1)
    assert text.text == "of 1,234 items 98.8"
    assert [text.text[claim.at:claim.at + len(claim.text)] for claim in text.claims] == ["1,234", "98.8"]
    assert unsourced("a.md", text.text + " and 5, at 95 %", text.claims) == ["5"]
    assert parse_claims(json.loads(json.dumps(claims_json(text.claims)))) == text.claims


@pytest.mark.parametrize("change", [
    {"at": -1}, {"at": "0"}, {"at": True}, {"text": 5}, {"as": "ells"}, {"digits": 99}, {"source": {}},
    {"source": {"file": "a", "pointer": 1}}, {"source": {"file": "a", "pointer": "", "line": -1}}, {"more": 1},
], ids=str)
def test_a_claim_of_another_form_is_refused(change: dict) -> None:
    value = claims_json(ClaimedText("a.md").number(1, SOURCE).claims)
    value["claims"][0] |= change
    with pytest.raises(RecordError):
        parse_claims(value)
    for wrong in ({}, [], {"schema": "claims/1", "claims": {}}, {"schema": "claims/2", "claims": []}):
        with pytest.raises(RecordError):
            parse_claims(wrong)


def read(file: str, line: int) -> object:
    values = {"s.json": {"mean": 0.9883, "n": 600, "per": {"a b": 1}}, "m.jsonl": {"loss": 0.123}}
    if file not in values:
        raise RecordError("no such file in the pack")
    return values[file]


def test_a_write_up_loses_its_comments_and_keeps_its_claims() -> None:
    text, claims = published(
        "Right: **98.8** %<!-- from s.json: mean as percent --> of 600<!-- from s.json: n --> items.\n"
        "<!-- to myself: check 7 -->Loss 0.12 <!-- from m.jsonl:3: loss -->.\n", read)
    assert text == "Right: **98.8** % of 600 items.\nLoss 0.12.\n"
    assert [(claim.text, text[claim.at:claim.at + len(claim.text)], claim.source.line) for claim in claims] == [
        ("98.8", "98.8", 0), ("600", "600", 0), ("0.12", "0.12", 3)]
    assert unsourced("WRITEUP.md", text, claims) == []
    assert words_in(text) == 8


@pytest.mark.parametrize(("text", "says"), [
    ("98.9<!-- from s.json: mean as percent -->", "98.8, which is what stands there"),
    ("601<!-- from s.json: n -->", "600, which"),
    ("98.8<!-- from t.json: mean as percent -->", "a value of the pack"),
    ("98.8<!-- from s.json: average as percent -->", "a value of the pack"),
    ("98.8<!-- from s.json: mean as ells -->", "unit 'ells'"),
    ("none<!-- from s.json: mean -->", "a number in front"),
    ("600 items and words<!-- from s.json: n -->", "a number in front"),
])
def test_a_write_up_with_a_wrong_number_is_refused(text: str, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        published(text, read)


def test_what_a_process_grew_by_is_a_number_of_the_runs_measured_memory() -> None:
    page = ('<table><tr><th></th><th>s</th></tr>'
            '<tr><th scope="row">Memory taken by the run</th><td>31.1 MiB</td></tr></table>')
    claim, = report_claims(page, "", {}, [Column(name="s", place="runs/s", memory={"growth_bytes": 32_624_640})])
    assert (claim.text, claim.unit) == ("31.1", "MiB")
    assert (claim.source.file, claim.source.pointer) == ("runs/s/plan/measured.json", "/growth_bytes")
    assert report_claims(page, "", {}, [Column(name="s", place="runs/s", memory={"growth_bytes": 1})]) == []


def test_a_small_p_value_of_a_page_is_one_that_is_below() -> None:
    page = '<p class="lead">+83.0 points (p\u00a0&lt;\u00a00.001)</p>'
    for p, claimed in ((2.6e-110, ["83.0", "0.001"]), (0.002, ["83.0"])):
        claims = report_claims(page, "+83.0 points (p = 2.6e-110)", {"delta": 0.83, "p_value": p}, [])
        assert [claim.text.lstrip("+") for claim in claims] == claimed
    assert unsourced("report.html", page, claims) == ["0.001"]
