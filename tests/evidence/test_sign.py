"""Signatures: keys that a person makes, statements that follow from the record, and what of them fails."""

import base64
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from tests.evidence import reseal, verdicts
from tests.record import synthetic
from workings.errors import RecordError, RequestError
from workings.evidence.attest import keys
from workings.evidence.attest.sign import sign_run
from workings.evidence.verify import verify
from workings.record.seal import root_digest

OTHER_KEY = "another key"
found, failed = (partial(each, level=0) for each in (verdicts.said, verdicts.failed))


def new_key(path: Path) -> Path:
    keys.new_key(path)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "keys" / "signing.key")


@pytest.fixture
def signed(run: Path, key: Path) -> Path:
    """A run that is signed."""
    sign_run(run, key)
    return run


def public(key: Path) -> tuple[bytes]:
    return (key.with_name(key.name + ".pub").read_bytes(),)


def payload(run: Path, name: str = "001.dsse.json") -> dict:
    return json.loads(base64.b64decode(json.loads((run / "attest" / name).read_bytes())["payload"]))


def test_a_key_is_private_and_never_overwritten(key: Path, run: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(RequestError, match="never overwritten"):
        keys.new_key(key)
    with pytest.raises(RequestError, match="is inside the record"):
        keys.new_key(run / "signing.key")
    key.chmod(0o644)
    with pytest.raises(RequestError, match="others can read"):
        keys.signer(key)


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(RequestError, match="a private key in PEM"):
        keys.signer(path)
    with pytest.raises(RecordError):
        keys.public_key(text.encode())


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    private = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "key"
    path.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(RequestError, match="an Ed25519 key"):
        keys.signer(path)
    with pytest.raises(RecordError, match="another kind"):
        keys.public_key(private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))


def test_an_unsigned_run_is_said_to_be_unsigned_and_does_not_fail(run: Path) -> None:
    assert found(run)["attestation.signed"] == ("not_checked", "not signed")
    assert "attestation.trust" not in found(run)
    assert verify(run, level=0).level == 0


def test_a_signed_run(run: Path, key: Path) -> None:
    before = root_digest(run)
    signed = sign_run(run, key)
    assert signed.subjects == ("tiny", "tiny/eval/test")
    assert root_digest(run) == before
    checks = found(run)
    assert (checks["attestation.signed"][0], checks["attestation.trust"][0]) == ("passed", "not_checked")
    assert signed.key_id in checks["attestation.signed"][1]
    assert found(run, trusted=public(key))["attestation.trust"][0] == "passed"
    result = verify(run)
    assert result.failed == 0
    assert result.level == 2


def test_the_statement_is_one_that_the_reference_library_reads(run: Path, key: Path) -> None:
    from google.protobuf.json_format import ParseDict
    sign_run(run, key)
    read = ParseDict(payload(run), statement_pb2.Statement())
    Statement.copy_from_pb(read).validate()
    assert read.predicate_type == "urn:workings:record:1"
    assert {subject.name: subject.digest["sha256"] for subject in read.subject} == {
        "tiny": root_digest(run), "tiny/eval/test": root_digest(run / "eval/test")}


def test_signing_twice_writes_nothing_and_later_units_need_another_signature(signed: Path, key: Path) -> None:
    assert sign_run(signed, key).existed
    synthetic.add_evaluation(signed, "later")
    assert found(signed)["attestation.signed"] == ("not_checked", "in no signed statement: tiny/eval/later")
    assert "attestation.trust" in failed(signed, trusted=public(key))
    assert sign_run(signed, key).path.name == "002.dsse.json"
    assert failed(signed, trusted=public(key)) == set()
    assert len(list((signed / "attest").iterdir())) == 3


def test_two_people_sign_and_only_who_signed_is_trusted(run: Path, key: Path, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    assert failed(run, trusted=public(other)) == {"attestation.trust"}
    sign_run(run, key)
    assert failed(run, trusted=public(other)) == {"attestation.trust"}
    sign_run(run, other)
    assert failed(run, trusted=public(key) + public(other)) == set()


def test_a_record_that_does_not_verify_is_not_signed(run: Path, key: Path) -> None:
    (run / "README.md").write_text("other")
    with pytest.raises(RecordError, match=r"not signed: .*integrity\.sums"):
        sign_run(run, key)
    assert not (run / "attest").exists()


def envelope(change: Callable[[dict], dict]) -> Callable[[Path], None]:
    """Another envelope in place of the signed one."""
    return lambda run: reseal.edit_json(run / "attest" / "001.dsse.json", change)


def statement(change: Callable[[dict], dict]) -> Callable[[Path], None]:
    """Another statement under the old signature."""
    return envelope(lambda value: value | {"payload": base64.b64encode(json.dumps(change(json.loads(
        base64.b64decode(value["payload"])))).encode()).decode()})


def appended(pattern: str, data: bytes) -> Callable[[Path], None]:
    """More bytes at the end of a file."""
    def change(run: Path) -> None:
        path = next((run / "attest").glob(pattern))
        path.write_bytes(path.read_bytes() + data)
    return change


def of_key(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """A change of the public key's file."""
    return lambda run: change(next((run / "attest").glob("*.pub")))


def folder_inside(run: Path) -> None:
    (run / "attest" / "more").mkdir()
    (run / "attest" / "more" / "001.dsse.json").write_text("{}")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another root": statement(lambda value: value | {"subject": [{"name": "tiny", "digest": {"sha256": "0" * 64}}]}),
    "another predicate": statement(lambda value: value | {"predicate": {"score": 1}}),
    "other spaces": statement(lambda value: value),
    "another signature": envelope(lambda value: value | {"signatures": [
        value["signatures"][0] | {"sig": base64.b64encode(b"\1" * 64).decode()}]}),
    OTHER_KEY: envelope(lambda value: value | {"signatures": [value["signatures"][0] | {"keyid": "ab" * 32}]}),
    "one more newline": appended("001.dsse.json", b"\n"), "more than a key": appended("*.pub", b"and a message\n"),
    "no key next to it": of_key(Path.unlink), "no public key": of_key(lambda path: path.write_text("no key")),
    "a key of another name": of_key(lambda path: path.rename(path.with_name("cd" * 32 + ".pub"))),
    "not base64": envelope(lambda value: value | {"payload": "*"}),
    "not JSON": lambda run: (run / "attest" / "001.dsse.json").write_text("{"),
    "a pickle": lambda run: (run / "attest" / "model.pkl").write_bytes(b"\x80\x04N."),
    "a folder": folder_inside, "a link": lambda run: (run / "attest" / "002.dsse.json").symlink_to("/etc/hostname"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_attestation_is_caught(signed: Path, key: Path, name: str) -> None:
    CHANGES[name](signed)
    assert failed(signed) == {"attestation.signed"}
    if name == OTHER_KEY:
        assert "is not next to it" in found(signed)["attestation.signed"][1]
        assert failed(signed, trusted=public(key)) == {"attestation.signed", "attestation.trust"}


def test_a_signature_does_not_move_to_another_record(signed: Path, key: Path, tmp_path: Path) -> None:
    other = synthetic.sealed_run(tmp_path / "other" / "tiny", "interrupted", 4)
    shutil.copytree(signed / "attest", other / "attest")
    assert failed(other, trusted=public(key)) == {"attestation.signed", "attestation.trust"}


def test_an_evaluation_that_was_taken_away_is_missed(signed: Path, key: Path) -> None:
    shutil.rmtree(signed / "eval")
    assert "attestation.signed" in failed(signed)
    assert failed(signed, trusted=public(key)) == {"attestation.signed", "attestation.trust"}


def test_without_the_library_a_signature_is_not_checked(signed: Path, key: Path, monkeypatch) -> None:
    monkeypatch.setattr(keys, "is_available", lambda: False)
    checks = found(signed)
    assert checks["attestation.signed"][0] == "not_checked"
    assert "pip install" in checks["attestation.signed"][1]
    assert found(signed, trusted=(b"x",))["attestation.trust"][0] == "not_checked"
    with pytest.raises(RequestError, match="the extra `sign`"):
        sign_run(signed, key)


def test_the_verbs(run: Path, workings, tmp_path: Path) -> None:
    key = tmp_path / "new" / "key"
    made = json.loads(workings("runs", "sign", "--new-key", key, "--json").stdout.splitlines()[-1])
    signed = json.loads(workings("runs", "sign", run, "--key", key, "--json").stdout.splitlines()[-1])
    assert signed["key_id"] == made["key_id"]
    done = json.loads(workings("verify", run, "--key", made["public"], "--json").stdout.splitlines()[-1])
    assert {"id": "attestation.trust", "level": 0, "verdict": "passed",
            "text": f"2 units signed by key {made['key_id']}"} in done["checks"]
    refused = workings("verify", run, "--key", run / "README.md", check=False)
    assert refused.returncode == 2
    assert "a public key in PEM" in refused.stderr
