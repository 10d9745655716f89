"""Time stamps (RFC 3161): an authority's word that a signed statement was there at a time. Only a digest is sent."""

import base64
import binascii
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha512
from pathlib import Path
from typing import TYPE_CHECKING

from workings.errors import RecordError, RequestError
from workings.hints import pip_install
from workings.record import atomic
from workings.record.canonical import line, loads
from workings.record.untrusted_files import read_plain

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

STAMP_NAME = re.compile(r"(\d{3})\.rfc3161\.json")
"""File names of time stamps; that of `001.dsse.json` has its number."""
SCHEMA = "timestamp/1"
MAX_RESPONSE_BYTES = 1 << 18
REQUEST_SECONDS = 30
INSTALL = pip_install("timestamp")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Contents of a time stamp."""

    time: datetime
    authority: str
    """Name in the certificate of the signer."""

    @property
    def text(self) -> str:
        """Time and authority for people."""
        return f"{self.time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} according to {self.authority}"


def is_available() -> bool:
    """Whether the libraries of the extra `timestamp` are installed."""
    from importlib.util import find_spec

    return find_spec("rfc3161_client") is not None


def require_available() -> None:
    """Raise `RequestError` where the libraries of the extra `timestamp` are absent."""
    if not is_available():
        raise RequestError("a time stamp, and no library for it", "the extra `timestamp` (rfc3161-client)", INSTALL)


def stamp_signature(signature: Path, url: str) -> tuple[Path, Stamp]:
    """Have an authority stamp a signature, and put its answer beside it; a stamp that is there already stays.

    Raises:
        RequestError: no library, no such authority, or an answer that is no time stamp of this signature.
    """
    require_available()
    path, data = signature.with_name(stamp_name(signature.name)), read_plain(signature)
    # The older stamp proves more than a new one, and stays.
    if path.exists():
        return path, stamp_of(response_in(read_plain(path)), data)
    response = _request(url, data)
    try:
        # Checked before it is written, because an authority may answer with anything.
        stamp = stamp_of(response, data)
    except RecordError as error:
        raise RequestError(f"--timestamp {url}: {error}", "the address of an RFC 3161 time-stamp authority") from None
    atomic.write_bytes(path, line({"schema": SCHEMA, "response": base64.b64encode(response).decode("ascii")}))
    return path, stamp


def stamp_name(signature: str) -> str:
    """`001.rfc3161.json` for `001.dsse.json`."""
    return f"{signature[:3]}.rfc3161.json"


def response_in(data: bytes) -> bytes:
    """The authority's answer from a file beside a signature. Raises `RecordError`."""
    value = loads(data)
    if not isinstance(value, dict) or set(value) != {"schema", "response"} or value["schema"] != SCHEMA \
            or line(value) != data:
        raise RecordError(f"not a {SCHEMA} in canonical form")
    try:
        return base64.b64decode(value["response"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise RecordError("an answer that is not base64") from None


def certificates(data: bytes) -> "list[Certificate]":
    """Certificates of a PEM file. Raises `RecordError` where there is none."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(data)
    except ValueError:
        raise RecordError("no certificates in PEM") from None


def stamp_of(response: bytes, data: bytes, roots: "Sequence[Certificate]" = ()) -> Stamp:
    """Time stamp in an authority's response about these bytes.

    Args:
        response: the authority's response.
        data: the stamped bytes.
        roots: trusted certificates; without any, nobody vouches for the stamp.

    Raises:
        RecordError: it is not a time stamp of these bytes, or does not lead to one of the certificates.
    """
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    try:
        decoded = decode_timestamp_response(response)
        if decoded.tst_info.message_imprint.message != sha512(data).digest():
            raise RecordError("a time stamp of something else")
        # Without trusted roots only the digest was compared: anybody could have made such an answer.
        if roots:
            VerifierBuilder(roots=list(roots)).build().verify_message(decoded, data)
        return Stamp(time=decoded.tst_info.gen_time, authority=_authority(decoded))
    except VerificationError as error:
        raise RecordError(f"a time stamp that none of the given certificates vouches for ({error})") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise RecordError(f"no time stamp ({str(error)[:80]})") from None


def _authority(response: "TimeStampResponse") -> str:
    from cryptography.x509 import load_der_x509_certificate

    signers = {(signer.issuer, signer.serial_number) for signer in response.signed_data.signer_infos}
    for certificate in map(load_der_x509_certificate, response.signed_data.certificates):
        if (certificate.issuer, certificate.serial_number) in signers:
            return certificate.subject.rfc4514_string()[:200]
    raise ValueError("the certificate of whoever signed it is not in it")


def _request(url: str, data: bytes) -> bytes:
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    if not url.startswith(("https://", "http://")):
        raise RequestError(f"--timestamp {url}", "the address of an RFC 3161 time-stamp authority, with https or http")
    # With the certificate in the answer whoever checks it needs no network, and the authority has a name.
    request = TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA512).cert_request(
        cert_request=True).build()
    asked = urllib.request.Request(url, request.as_bytes(), {  # noqa: S310 - http and https only, see above
        "content-type": "application/timestamp-query", "accept": "application/timestamp-reply"})
    try:
        with urllib.request.urlopen(asked, timeout=REQUEST_SECONDS) as answer:  # noqa: S310
            # An answer beyond the limit is cut off and then no time stamp; a server cannot fill the memory.
            response: bytes = answer.read(MAX_RESPONSE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise RequestError(f"--timestamp {url}: {error}", "an authority that answers; the signature itself is written",
                           "the same command again: a signature that is there is not made twice") from None
    return response
