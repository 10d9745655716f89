"""Tokens, keys and home folders never reach a record: they are taken out where it is written."""

import logging
import re
from pathlib import Path
from typing import Any

REDACTED = "[redacted]"

_SECRETS = tuple(re.compile(pattern) for pattern in (
    r"\bhf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"\bapi_org_[A-Za-z0-9]{20,}",  # Hugging Face, organizations
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",  # GitHub
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",  # GitHub, fine-grained
    r"\bKGAT_[A-Za-z0-9]{16,}",  # Kaggle
    r"\bsk-[A-Za-z0-9_-]{20,}",  # model providers
    r"\bAKIA[0-9A-Z]{16}\b",  # AWS
    r"\bAIza[0-9A-Za-z_-]{35}",  # Google
    r"\bya29\.[0-9A-Za-z_-]{20,}",  # Google, short-lived
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,}",  # JSON web tokens
))
_HINTS = ("hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "KGAT_", "sk-", "AKIA", "AIza",
          "ya29.", "-----BEGIN ", "eyJ")
"""Texts of which one stands in everything that one of these patterns finds."""
_NAMED = re.compile(
    r"(?i)(\b(?:authorization\s*:\s*)?bearer\s+|\b(?:[a-z0-9_]*(?:api[_-]?key|access[_-]?token|_token|secret|password)"
    r"|kaggle[_-]key)[\"']?\s*[=:]\s*[\"']?)([A-Za-z0-9._~+/=-]{8,})")
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{1,200}:)([^\s/@]{1,200})(?=@)")


def redact(text: str) -> str:
    """The text with everything that looks like a token, key or password replaced by `[redacted]`."""
    for pattern in _SECRETS:
        text = pattern.sub(REDACTED, text)
    text = _NAMED.sub(lambda match: match.group(1) + REDACTED, text)
    return _URL_PASSWORD.sub(lambda match: match.group(1) + REDACTED, text)


def find_secrets(text: str) -> list[str]:
    """Tokens and keys of a known form in a text, each cut to eight characters so that a report does not leak it."""
    if not any(hint in text for hint in _HINTS):  # fixed texts are found much faster than patterns
        return []
    return [match.group(0)[:8] + "…" for pattern in _SECRETS for match in pattern.finditer(text)]


def without_home(text: str) -> str:
    """The text with this person's home folder written as `~`."""
    home = str(Path.home()).rstrip("/")
    return re.sub(re.escape(home) + r"(?=/|$|[^\w.-])", "~", text) if len(home) > 1 else text


def cleaned(value: Any) -> Any:
    """A JSON value whose texts are redacted and without the home folder."""
    if isinstance(value, str):
        return without_home(redact(value))
    if isinstance(value, dict):
        return {key: cleaned(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(inner) for inner in value]
    return value


class RedactingFilter(logging.Filter):
    """A logging filter that redacts each record's finished message. Add it to handlers, so that it sees all loggers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact; every record passes."""
        record.msg, record.args = redact(record.getMessage()), ()
        return True
