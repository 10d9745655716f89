"""Time stamps by an authority of the test's own: `openssl ts` behind a small server on this machine."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.http_server import Handler, serving
from workings.errors import RequestError
from workings.evidence.attest import keys, timestamp
from workings.evidence.attest.sign import sign_run
from workings.evidence.verify import verify

pytestmark = [
    pytest.mark.children,
    pytest.mark.skipif(not timestamp.is_available(), reason="the extra `timestamp` is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for an authority")]
CONFIG = """
[tsa]
serial = {folder}/serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
ess_cert_id_alg = sha256
"""


def certificate(folder: Path, name: str) -> bytes:
    """A root named ``name``, and an authority with a certificate of it in ``folder``; the root's certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    root_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, own_name = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
                           for text in (name, f"{name} stamps"))
    now = datetime.now(UTC)

    def made(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_root: bool) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(root_name).public_key(
            key.public_key()).serial_number(x509.random_serial_number()).not_valid_before(
            now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)).add_extension(
            x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
        if not is_root:
            builder = builder.add_extension(
                x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        return builder.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root = made(root_name, root_key, is_root=True)
    (folder / "tsa.pem").write_bytes(made(own_name, own_key, is_root=False))
    (folder / "tsa.key").write_bytes(own_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    (folder / "tsa.conf").write_text(CONFIG.format(folder=folder))
    (folder / "serial").write_text("01\n")
    return root


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """Address and root certificate of an authority."""
    folder = tmp_path / "authority"
    folder.mkdir()
    root = certificate(folder, "Test Root")

    class Answers(Handler):
        def do_POST(self) -> None:
            (folder / "asked").write_bytes(self.rfile.read(int(self.headers["content-length"])))
            subprocess.run(["openssl", "ts", "-reply", "-config", folder / "tsa.conf", "-section", "tsa", "-queryfile",
                            folder / "asked", "-signer", folder / "tsa.pem", "-inkey", folder / "tsa.key", "-out",
                            folder / "reply"], check=True, capture_output=True)
            self.send_response(200)
            self.end_headers()
            self.wfile.write((folder / "reply").read_bytes())

    with serving(Answers) as address:
        yield f"{address}/", root


@pytest.fixture
def stamped(run: Path, tmp_path: Path, authority: tuple[str, bytes]) -> tuple[Path, Path, bytes]:
    """A run that is signed and stamped, the key, and the authority's root."""
    key = keys.new_key(tmp_path / "keys" / "signing.key").private
    path, stamp = timestamp.stamp_signature(sign_run(run, key).path, authority[0])
    assert path == run / "attest/001.rfc3161.json"
    assert stamp.authority == "CN=Test Root stamps"
    assert abs(stamp.time - datetime.now(UTC)) < timedelta(minutes=5)
    return run, key, authority[1]


def said(run: Path, *roots: bytes) -> tuple[str, str]:
    check = next(one for one in verify(run, level=0, authorities=roots).checks if one.id == "attestation.time")
    return str(check.verdict), check.text


def test_a_signature_existed_before_a_time(stamped: tuple[Path, Path, bytes], authority: tuple[str, bytes],
                                           tmp_path: Path) -> None:
    run, key, root = stamped
    verdict, text = said(run, root)
    assert verdict == "passed"
    assert text.startswith("001.dsse.json existed before 20")
    assert text.endswith("Z according to CN=Test Root stamps")
    assert verify(run, level=0, authorities=(root,)).level == 0
    verdict, text = said(run)  # nobody vouches for it
    assert (verdict, "no certificate was given" in text) == ("not_checked", True)
    assert verify(run, level=0).level == 0
    zipped = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", run))
    assert said(zipped, root)[0] == "passed"
    before = (run / "attest/001.rfc3161.json").read_bytes()  # asked again, it stays
    assert timestamp.stamp_signature(sign_run(run, key).path, authority[0])[0].read_bytes() == before


def another_signature(run: Path, key: Path) -> None:
    """What was stamped is replaced by what was signed later."""
    stamp = (run / "attest/001.rfc3161.json").read_bytes()
    shutil.rmtree(run / "attest")
    reseal.edit_json(run / "run_manifest.json", lambda value: {**value, "name": "later"})
    reseal.reseal(run)
    sign_run(run, key)
    (run / "attest/001.rfc3161.json").write_bytes(stamp)


@pytest.mark.parametrize(("change", "why"), [
    (another_signature, "a time stamp of something else"),
    (lambda run, key: (run / "attest/001.dsse.json").unlink(), "attest/001.dsse.json is missing"),
    (lambda run, key: reseal.edit_json(run / "attest/001.rfc3161.json", lambda value: {**value, "response": "AAAA"}),
     "no time stamp"),
    (lambda run, key: (run / "attest/001.rfc3161.json").write_text("{}"), "not a timestamp/1"),
    (lambda run, key: (run / "attest/001.rfc3161.json").unlink(), "no time stamp, and a certificate"),
], ids=["another signature", "no signature", "no answer", "no stamp", "none at all"])
def test_stamps_of_something_else(stamped: tuple[Path, Path, bytes], change: Callable[[Path, Path], object],
                                  why: str) -> None:
    run, key, root = stamped
    change(run, key)
    verdict, text = said(run, root)
    assert verdict == "failed"
    assert why in text


def test_another_authority_vouches_for_nothing(stamped: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    verdict, text = said(stamped[0], certificate(tmp_path / "other", "Test Root"))
    assert verdict == "failed"
    assert "none of the given certificates vouches for" in text


def test_an_answer_whose_bytes_were_changed(stamped: tuple[Path, Path, bytes]) -> None:
    run, _, root = stamped
    path = run / "attest/001.rfc3161.json"
    response = bytearray(timestamp.response_in(path.read_bytes()))
    signature, roots = (run / "attest/001.dsse.json").read_bytes(), timestamp.certificates(root)
    for at in range(0, len(response), 97):
        changed = response.copy()
        changed[at] ^= 1
        with pytest.raises(timestamp.RecordError):
            timestamp.stamp_of(bytes(changed), signature, roots)


@pytest.mark.parametrize("url", ["file://authority.example/file", "http://127.0.0.1/not-tls", "authority.example"])
def test_no_authority_there(run: Path, tmp_path: Path, url: str) -> None:
    signed = sign_run(run, keys.new_key(tmp_path / "keys" / "signing.key").private).path
    with pytest.raises(RequestError, match="--timestamp"):
        timestamp.stamp_signature(signed, url)
    assert not (run / "attest/001.rfc3161.json").exists()
