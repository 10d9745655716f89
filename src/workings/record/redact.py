"""Removal of tokens, keys and home folders from texts that are recorded; and detection of unfilled templates."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REDACTED = "[redacted]"
_SECRETS = tuple((hints.split(), re.compile(pattern)) for hints, pattern in (
    ("hf_", r"\bhf_[A-Za-z0-9]{20,}"),  # Hugging Face
    ("api_org_", r"\bapi_org_[A-Za-z0-9]{20,}"),  # Hugging Face, organizations
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),  # GitHub
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),  # GitHub, fine-grained
    ("KGAT_", r"\bKGAT_[A-Za-z0-9]{16,}"),  # Kaggle
    ("sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),  # model providers
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),  # AWS
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),  # Google
    ("ya29.", r"\bya29\.[0-9A-Za-z_-]{20,}"),  # Google, short-lived
    ("-----BEGIN", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    ("eyJ",  # JSON web tokens
     r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,}")))
"""Fixed texts (every match of the pattern has one; searching them is many times as fast), and the pattern."""
_NAMED = re.compile(
    r"(?i)(\b(?:authorization\s*:\s*)?bearer\s+|\b(?:[a-z0-9_]*(?:api[_-]?key|access[_-]?token|_token|secret|password)"
    r"|kaggle[_-]key)[\"']?\s*[=:]\s*[\"']?)([A-Za-z0-9._~+/=-]{8,})")
_NAMED_HINTS = ("bearer", "apikey", "api_key", "api-key", "accesstoken", "access_token", "access-token", "_token",
                "secret", "password", "kaggle_key", "kaggle-key")
_PACKED_CHARACTERS, _PACKED_SIGNS = 400, frozenset("!#$%&()*+;<=>?@^`{|}~")
"""Fewest characters of packed numbers, and those of base 85 that no token has."""
_PACKED = re.compile(r"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+")
# Every repetition is bounded, so that a search through a long log stays linear.
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{1,200}:)([^\s/@]{1,200})(?=@)")


def redact(text: str) -> str:
    """The text with everything that looks like a token, key or password replaced by `[redacted]`."""
    for pattern in _possible(text):
        text = pattern.sub(REDACTED, text)
    folded = text.casefold().replace("_tokens", "")  # a count of tokens names no token
    if any(hint in folded for hint in _NAMED_HINTS):
        text = _NAMED.sub(lambda match: match.group(1) + REDACTED, text)
    return _URL_PASSWORD.sub(lambda match: match.group(1) + REDACTED, text) if "://" in text else text


def find_secrets(text: str) -> list[str]:
    """Tokens and keys of a known form in a text, each cut to eight characters so that a report does not leak it."""
    return [match.group(0)[:8] + "…" for pattern in _possible(text) for match in pattern.finditer(text)
            if not _in_packed_numbers(text, match)]


def _in_packed_numbers(text: str, match: re.Match[str]) -> bool:
    """Whether a match is in numbers that a rollout packs in base 85: in 400 MB of them one place looks like a token."""
    begin, end = text.rfind('"', 0, match.start()) + 1, text.find('"', match.end())
    # The text may end within the numbers. No token is as long as packed numbers are.
    packed = text[begin:end] if end >= 0 else text[begin:]
    return len(packed) >= _PACKED_CHARACTERS and bool(_PACKED.fullmatch(packed)) and bool(
        _PACKED_SIGNS.intersection(packed))


def _possible(text: str) -> list[re.Pattern[str]]:
    return [pattern for hints, pattern in _SECRETS if any(hint in text for hint in hints)]


def without_home(text: str) -> str:
    """The text with the user's home folder written as `~`."""
    home = str(Path.home()).rstrip("/")
    # Only up to the end of a name: `/home/ann` is no part of `/home/anna`. A home of `/` would be in every path.
    return re.sub(re.escape(home) + r"(?=/|$|[^\w.-])", "~", text) if len(home) > 1 and home in text else text


def cleaned(value: Any) -> Any:
    """A JSON value whose texts are redacted and without the home folder."""
    if isinstance(value, str):
        return without_home(redact(value))
    if isinstance(value, dict):
        return {key: cleaned(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(inner) for inner in value]
    return value


_PLACEHOLDER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX+|CHANGE_?ME|REPLACE_?ME|PLACEHOLDER)\b|\blorem ipsum\b|\b(?:fill|insert) (?:in|here|me)\b"
    r"|<(?:your|insert|enter|add)[ _-][^<>\n]{1,60}>|\{\{[^{}\n]{1,60}\}\}"
    r"|^[ \t]*\.\.\.[ \t]*$|^(?:N/?A|null|unknown|\?+)$",
    re.IGNORECASE | re.MULTILINE)
_ONE_CHARACTER_DIGEST = re.compile(r"\b([0-9a-f])\1{39,}\b")


def find_placeholders(text: str) -> Iterator[str]:
    """The placeholders in a text."""
    return (match.group(0) for match in _PLACEHOLDER.finditer(text))


def is_placeholder(text: str) -> bool:
    """Whether a value is empty, holds a placeholder, or is a digest of one repeated character."""
    return not text.strip() or bool(_PLACEHOLDER.search(text) or _ONE_CHARACTER_DIGEST.search(text))
