"""Signed statements about root digests: in-toto statements (https://in-toto.io) in envelopes of the form DSSE.

An envelope is a JSON object with the statement (`payload`, in base64) and its `signatures`. A root digest covers every
fact of its record, so a statement names only units and their roots, and a verifier can make the same statement again.
"""

import base64
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workings.errors import RecordError
from workings.record import canonical
from workings.record.digest import DIGEST_PATTERN
from workings.record.manifest import RunManifest
from workings.record.values import parsed_part

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
FORM = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:workings:record:1",
        "predicate": {"subjects": "root digests of sealed units"}}
"""Everything in a statement but its subjects. A new form gets a new number."""
ENVELOPE_NAME = re.compile(r"\d{3}\.dsse\.json")
"""File names of envelopes."""
PUBLIC_NAME = re.compile(rf"({DIGEST_PATTERN})\.pub")
"""File names of public keys next to them, by key id."""
MAX_SIGNATURES = 32


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Signature(_Part):
    keyid: str
    sig: str


class SignedStatement(_Part):
    """An envelope whose signatures were not verified."""

    payload: str
    payloadType: Literal["application/vnd.in-toto+json"]
    signatures: list[_Signature] = Field(min_length=1, max_length=MAX_SIGNATURES)

    @cached_property
    def statement(self) -> dict[str, Any]:
        """The JSON object in its payload. Raises `RecordError`."""
        try:
            # Without `validate` Python skips characters outside of base64, and two texts would mean the same bytes.
            value = canonical.loads(base64.b64decode(self.payload, validate=True))
        except ValueError:
            raise RecordError("an envelope whose payload is not base64") from None
        if not isinstance(value, dict):
            raise RecordError("an envelope whose payload is not a JSON object")
        return value


def subject_name(manifest: RunManifest, path: str) -> str:
    """Name of a unit in the statement: the run's name, and the unit's path in it."""
    return f"{manifest.name}/{path}" if path else manifest.name


def seal(statement: dict[str, Any], signer: "CryptoSigner") -> dict[str, Any]:
    """A statement in an envelope with one signature. The same statement and key give the same bytes."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(canonical.dumps(statement), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return dict(envelope.to_dict())


def open_envelope(data: bytes) -> SignedStatement:
    """Read an envelope's form, without any cryptography. Raises `RecordError`."""
    value = canonical.loads(data)
    if canonical.line(value) != data:
        raise RecordError("not in canonical form (RFC 8785 and a newline)")
    return parsed_part(SignedStatement, value, "not a DSSE envelope")


def signed_by(envelope: SignedStatement, key: "SSlibKey") -> bool:
    """Whether this key signed exactly these bytes. Raises `RecordError` for signatures that cannot be read."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    try:
        Envelope.from_dict(envelope.model_dump()).verify([key], 1)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"signatures that cannot be read ({str(error)[:80]})") from None
    except VerificationError:
        return False
    return True
