"""DSSE envelopes (Dead Simple Signing Envelope): the statement's bytes and the signatures over them."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError
from workings.evidence.attest.statement import PAYLOAD_TYPE
from workings.record import canonical
from workings.record.digest import DIGEST_PATTERN

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

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


def seal(statement: dict[str, Any], signer: "CryptoSigner") -> dict[str, Any]:
    """A statement in an envelope with one signature. The same statement and key give the same bytes."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(canonical.dumps(statement), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return dict(envelope.to_dict())


def open_envelope(data: bytes) -> OpenedEnvelope:
    """Read an envelope's form, without any cryptography. Raises `RecordError`."""
    import base64
    import binascii

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
    """Whether this key signed exactly these bytes."""
    from securesystemslib.exceptions import VerificationError

    try:
        # One signature of this key; others in the envelope neither help nor harm.
        _envelope(opened).verify([key], 1)
    except VerificationError:
        return False
    return True


def _envelope(opened: OpenedEnvelope) -> "Envelope":
    from securesystemslib.dsse import Envelope

    try:  # `from_dict` changes what it is given
        return Envelope.from_dict({**opened.raw, "signatures": [dict(entry) for entry in opened.raw["signatures"]]})
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"signatures that cannot be read ({str(error)[:80]})") from None
