"""What is written about the environment: an allow-list, no secrets, no home folder, no nulls."""

import base64
import json
from pathlib import Path

import pytest

from workings.record import environment
from workings.record.canonical import dumps, find_nulls
from workings.record.redact import cleaned, find_secrets, redact


def test_only_what_is_allowed_is_collected(monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    monkeypatch.setenv("KAGGLE_KEY", "0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={Path.home()}/dump")
    facts = environment.collect()
    text = dumps(facts).decode()
    assert find_nulls(facts) == []
    assert "hf_" not in text
    assert "0123456789abcdef" not in text
    assert facts["variables"] == {"OMP_NUM_THREADS": "2", "XLA_FLAGS": "--xla_dump_to=~/dump"}
    assert facts["machine"]["threads"] == {"OMP_NUM_THREADS": "2"}
    assert facts["packages"]["pydantic"]
    assert "pytest" not in facts["packages"]
    assert facts["machine"]["usable_cores"] >= 1


@pytest.mark.parametrize("secret", [
    "hf_" + "a" * 34, "hf_" + "A1" * 17, "api_org_" + "a" * 34, "ghp_" + "a" * 36, "gho_" + "a" * 36, "ghu_" + "a" * 36,
    "ghs_" + "a" * 36, "ghr_" + "a" * 36, "github_pat_" + "a" * 40, "KGAT_" + "a" * 32, "sk-" + "Zz9" * 10,
    "AKIA" + "A" * 16, "AIza" + "a" * 35, "ya29." + "a" * 40, "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    "eyJhbGciOiJub25l.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl"], ids=lambda secret: secret[:16])
def test_secrets_are_found_and_taken_out(secret: str) -> None:
    assert redact(f"before {secret} after") == "before [redacted] after"
    assert find_secrets(f"x={secret};") == [secret[:8] + "…"]


@pytest.mark.parametrize(("text", "expected"), [
    ("Authorization: Bearer abcdefgh.ijklmnop", "Authorization: Bearer [redacted]"),
    ('{"key": 1, "api_key": "abcdefgh1234"}', '{"key": 1, "api_key": "[redacted]"}'),
    ("KAGGLE_KEY=0123456789abcdef", "KAGGLE_KEY=[redacted]"),
    ("https://me:pass@host/x", "https://me:[redacted]@host/x"),
    ("supervised_tokens: 123456789, tokens/s 12", "supervised_tokens: 123456789, tokens/s 12"),
    ("sha256 " + "ab" * 32, "sha256 " + "ab" * 32), ("What is 47+25? 7+5=12", "What is 47+25? 7+5=12")])
def test_named_secrets_go_and_plain_text_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_hostile_text_is_redacted_in_linear_time() -> None:
    for text in ("a." * 200_000, "eyJ-" * 100_000, "a" * 400_000 + "_token", "-" * 400_000, "://:" * 100_000,
                 "bearer " + " " * 400_000):
        assert redact(text) is not None


def test_values_are_cleaned_in_depth() -> None:
    home = str(Path.home())
    value = {"a": [f"{home}/x", 1, True], "b": {"c": f"{home}user", "d": ("hf_" + "a" * 30,)}}
    assert cleaned(value) == {"a": ["~/x", 1, True], "b": {"c": f"{home}user", "d": ["[redacted]"]}}


def test_packed_numbers_of_a_rollout_hold_no_token_however_they_look():
    packed = base64.b85encode(bytes(range(256)) * 3).decode()
    lookalike = f"{packed[:500]}!hf_{'a1' * 15}+{packed[500:]}"
    assert find_secrets(json.dumps({"tokens": lookalike})) == []
    assert find_secrets(json.dumps({"tokens": lookalike})[:-200]) == []  # a piece of a file ends anywhere
    # A token in a text of the same length, one next to the numbers, and the longest that is known stay what they are.
    assert find_secrets(json.dumps({"note": f"{'a word ' * 80} hf_{'a1' * 15}"})) == ["hf_a1a1a…"]
    assert find_secrets(json.dumps({"tokens": packed, "key": f"hf_{'a1' * 15}"})) == ["hf_a1a1a…"]
    assert find_secrets(json.dumps({"key": "sk-proj-" + "a1B-" * 60})) == ["sk-proj-…"]
