"""Numbers of a write-up with sources: found where they stand, compared at the digits they show."""

import pytest

from workings.errors import RecordError, RequestError
from workings.evidence.writeup import agrees, claims_in, numbers_in, published, resolve, unsourced, words_in


@pytest.mark.parametrize(("text", "numbers"), [
    ("98.8 % of 600 items", ["98.8", "600"]),
    ("+83.0 points (+79.8 to \u22125.8), p = 2.6e-110.", ["+83.0", "+79.8", "\u22125.8", "2.6e-110"]),
    ("1,234 and 1\u202f234\u202f567 of 12.", ["1,234", "1\u202f234\u202f567", "12"]),
    ("gemma-2b, v0.1.0, step_000200, a/7, #3, 2026-11-20, https://x.y/9, `9`, x9", []),
    ("<p class=\"x7\"><b>9</b>&#39;", ["9"]),
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


@pytest.mark.parametrize("opening", ["<pre ", "<!--", "`", "```", "\t", "<!-- from a: "])
def test_openings_without_an_end_are_read_once(opening: str) -> None:
    """Patterns that search on from each opening would take minutes for these 400 kB."""
    text = opening * (400_000 // len(opening)) + "\n\n"
    assert [number for _, number in numbers_in(text + "7")][-1:] == ["7"]
    assert published(text, lambda name, line: None) == text


def test_places() -> None:
    assert resolve({"a": [{"b c": 3}]}, "a.0.b c") == 3
    for place in ("b", "a.9", "a.x", "a.0.b.c", "a.99999999999999999999"):
        with pytest.raises(RecordError):
            resolve({"a": [{"b": 1}]}, place)


def read(file: str, line: int) -> object:
    values = {"s.json": {"mean": 0.9883, "n": 600, "per": {"a b": 1}}, "m.jsonl": {"loss": 0.123}}
    if file not in values:
        raise RecordError("no such file in the pack")
    return values[file]


def test_a_write_up_keeps_its_sources_and_loses_its_notes() -> None:
    text = published(
        "Right: **98.8** %<!-- from s.json: mean as percent --> of 600<!-- from s.json: n --> items.\n"
        "<!-- to myself: check 7 -->Loss 0.12 <!-- from m.jsonl:3: loss -->, 4 times, at 95 %.\n", read)
    assert "to myself" not in text
    claims = list(claims_in(text))
    assert [(claim.text, text[claim.at:claim.at + len(claim.text)], claim.line) for claim in claims] == [
        ("98.8", "98.8", 0), ("600", "600", 0), ("0.12", "0.12", 3)]
    assert unsourced(text) == ["4"]
    assert words_in(text) == 14


@pytest.mark.parametrize(("text", "says"), [
    ("98.9<!-- from s.json: mean as percent -->", "98.8, which is what is there"),
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
