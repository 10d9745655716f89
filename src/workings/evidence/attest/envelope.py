"""Signed statements: DSSE envelopes (Dead Simple Signing Envelope) around in-toto statements about root digests.

The roots cover every fact of the record, so the statement repeats none. A verifier can rebuild and compare it. Only the
user who trained vouches for it.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError
from workings.record import canonical
from workings.record.digest import DIGEST_PATTERN
from workings.record.manifest import RunManifest

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
FORM = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:workings:record:1",
        "predicate": {"subjects": "root digests of sealed units"}}
"""Everything in a statement but its subjects. A new form gets a new number."""
ENVELOPE_NAME = re.compile(r"(\d{3})\.dsse\.json")
"""File names of envelopes."""
PUBLIC_NAME = re.compile(rf"({DIGEST_PATTERN})\.pub")
"""File names of public keys next to them, by key id."""
MAX_SIGNATURES = 32
_KEYS = {"payload", "payloadType", "signatures"}


@dataclass(frozen=True, kw_only=True)
class OpenedEnvelope:
    """Contents of an envelope, not verified."""

    statement: dict[str, Any]
    """The payload as JSON."""
    key_ids: tuple[str, ...]
    """Ids of the keys of its signatures."""
    raw: dict[str, Any]


def statement(manifest: RunManifest, roots: Mapping[str, str]) -> dict[str, Any]:
    """The statement about a run.

    Args:
        manifest: the run's manifest.
        roots: root digests by path in the run: `""` for the run itself, `eval/items`, …
    """
    return {**FORM, "subject": [{"name": subject_name(manifest, path), "digest": {"sha256": root}}
                                for path, root in sorted(roots.items())]}


def subject_name(manifest: RunManifest, path: str) -> str:
    """Name of a unit in the statement: the run's name, and the unit's path in it."""
    return f"{manifest.name}/{path}" if path else manifest.name


def seal(statement: dict[str, Any], signer: "CryptoSigner") -> dict[str, Any]:
    """A statement in an envelope with one signature. The same statement and key give the same bytes."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(canonical.dumps(statement), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return dict(envelope.to_dict())


def open_envelope(data: bytes) -> OpenedEnvelope:
    """Read an envelope's form, without any cryptography. Raises `RecordError`."""
    value = canonical.loads(data)
    if canonical.line(value) != data:
        raise RecordError("not in canonical form (RFC 8785 and a newline)")
    if not isinstance(value, dict) or set(value) != _KEYS or value["payloadType"] != PAYLOAD_TYPE:
        raise RecordError(f"not a DSSE envelope around {PAYLOAD_TYPE}")
    signatures = value["signatures"]
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise RecordError("an envelope without signatures, or with too many")
    for entry in signatures:
        if not isinstance(entry, dict) or set(entry) != {"keyid", "sig"} or not all(
                isinstance(part, str) for part in entry.values()):
            raise RecordError("a signature without key id or value")
    try:
        # Without `validate` Python passes over any other character, and two texts would mean the same bytes.
        payload = base64.b64decode(value["payload"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise RecordError("an envelope whose payload is not base64") from None
    statement = canonical.loads(payload)
    if not isinstance(statement, dict):
        raise RecordError("an envelope whose payload is not a JSON object")
    return OpenedEnvelope(statement=statement, raw=value, key_ids=tuple(str(entry["keyid"]) for entry in signatures))


def signed_by(opened: OpenedEnvelope, key: "SSlibKey") -> bool:
    """Whether this key signed exactly these bytes. Raises `RecordError` for signatures that cannot be read."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    try:  # `from_dict` changes what it is given
        envelope = Envelope.from_dict(
            {**opened.raw, "signatures": [dict(entry) for entry in opened.raw["signatures"]]})
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"signatures that cannot be read ({str(error)[:80]})") from None
    try:
        # One signature of this key; others in the envelope neither help nor harm.
        envelope.verify([key], 1)
    except VerificationError:
        return False
    return True
