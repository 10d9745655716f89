"""Canonical JSON against RFC 8785's own examples, and what strict reading refuses."""

import json

import pytest

from workings.errors import RecordError
from workings.record import canonical
from workings.record.digest import bytes_digest, file_digest, json_digest


def test_the_rfcs_example() -> None:
    # RFC 8785, section 3.2.2 and 3.2.3.
    value = json.loads(r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
                       r'"string":"\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}'
                       .replace(r"\'", "'"))
    assert canonical.dumps(value) == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}').encode()


def test_keys_are_sorted_by_utf16() -> None:
    # RFC 8785, section 3.2.3: the order of code units, in which the emoji (a surrogate pair) comes before U+FB33.
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    assert list(json.loads(canonical.dumps(value)).values()) == [2, 4, 6, 7, 1, 5, 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53 + 1, object(), {1: "a"}, {"a": b"x"}],
                         ids=["nan", "infinity", "too large", "object", "key that is no text", "bytes"])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(RecordError, match="JSON can hold exactly"):
        canonical.dumps(value)


def test_nulls_are_found_by_place() -> None:
    assert canonical.find_nulls({"a": [1, None, {"b": None}], "c": "null"}) == ["$.a[1]", "$.a[2].b"]
    assert canonical.find_nulls({"a": {"absent": "why"}}) == []


def test_digests_by_hand(tmp_path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert (bytes_digest(b""), bytes_digest(b"abc")) == (empty, abc)
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == abc
    assert json_digest({"b": 1, "a": 2.0}) == bytes_digest(b'{"a":2,"b":1}')
