"""Users' keys: Ed25519, private in PEM (PKCS 8) with mode 600, public with the suffix `.pub`."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from workings.errors import RecordError, RequestError
from workings.hints import pip_install
from workings.record import atomic
from workings.record.layout import MANIFEST, SEAL
from workings.record.storage import storage

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

PUBLIC_SUFFIX = ".pub"
MAX_KEY_BYTES = 1 << 14
INSTALL = pip_install("sign")


def is_available() -> bool:
    """Whether the libraries of the extra `sign` are installed."""
    return find_spec("cryptography") is not None and find_spec("securesystemslib") is not None


def require_available() -> None:
    """Raise `RequestError` if the libraries of the extra `sign` are missing."""
    if not is_available():
        raise RequestError("signing needs securesystemslib and cryptography", "the extra `sign`", INSTALL)


def new_key(path: Path) -> str:
    """Make a key pair: ``path`` (mode 600) and ``path.pub``; its id.

    The id is the SHA-256 of the public key in securesystemslib's canonical form, in hexadecimal. Raises `RequestError`
    if one of the files exists or would be inside a run, and `StorageError`.
    """
    require_available()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for taken in (path, public):
        # `lexists`, because a link to nowhere counts: a write would go where it points.
        if os.path.lexists(taken):
            raise RequestError(f"{taken} already exists", "a new file; keys are never overwritten", "another --out")
    for folder in path.absolute().parents:
        if (folder / SEAL).exists() or (folder / MANIFEST).exists():
            raise RequestError(f"{path} is inside the record {folder}", "a private place outside of every record",
                               "--out ~/.workings/signing.key")
    key = Ed25519PrivateKey.generate()
    private_bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.NoEncryption())
    public_bytes = key.public_key().public_bytes(serialization.Encoding.PEM,
                                                 serialization.PublicFormat.SubjectPublicKeyInfo)
    with storage(path, "write"), atomic.together(path, public):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # O_EXCL refuses a file or link that was made since the test above.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(private_bytes)
        atomic.write_bytes(public, public_bytes)
    return str(public_key(public_bytes).keyid)


def signer(path: Path) -> "CryptoSigner":
    """The private key of a file. Raises `RequestError` for another kind of key, and for a file that others can read."""
    require_available()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    if not path.is_file():
        raise RequestError(f"--key {path} is not a file", "the private key that `workings runs sign --new-key FILE` "
                           "made", "workings runs sign --new-key ~/.workings/signing.key")
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    # cryptography raises TypeError for an encrypted key.
    except (TypeError, ValueError):
        raise RequestError(f"--key {path} is no private key", "a private key in PEM without a passphrase, and not the "
                           "public one", "workings runs sign --new-key ~/.workings/signing.key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise RequestError(f"--key {path} is a key of another kind", "an Ed25519 key",
                           "workings runs sign --new-key FILE")
    if path.stat().st_mode & 0o077:
        raise RequestError(f"others can read --key {path} (mode {path.stat().st_mode & 0o777:o})",
                           "a key that only its owner can read", f"chmod 600 {path}")
    return CryptoSigner(key)


def public_key(data: bytes) -> "SSlibKey":
    """The public key of a PEM file's bytes. Raises `RecordError` for anything but an Ed25519 key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    try:
        key = load_pem_public_key(data[:MAX_KEY_BYTES])
    except (ValueError, UnsupportedAlgorithm):
        raise RecordError("not a public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise RecordError("a public key of another kind than Ed25519")
    return SSlibKey.from_crypto(key)


def public_pem(key: "SSlibKey") -> bytes:
    """The one form in which a public key is in a record."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    # securesystemslib keeps the 32 bytes of the key in hexadecimal; PEM could hold comments and other line lengths.
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"])).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
