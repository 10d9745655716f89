"""Signs a run: writes a statement about the root digests of the run and its units, `attest/001.dsse.json`.

The run's own sums do not list the folder `attest`, because signatures come after the seal.
"""

from dataclasses import dataclass
from pathlib import Path

from workings.errors import RecordError, RequestError
from workings.evidence.attest import envelope, keys
from workings.evidence.attest.envelope import ENVELOPE_NAME, FORM, subject_name
from workings.evidence.verify import verify
from workings.record import atomic
from workings.record.canonical import line
from workings.record.layout import ATTEST, UNIT_PARENTS
from workings.record.lock import DirectoryLock
from workings.record.reader import RunRecord
from workings.record.seal import root_digest
from workings.record.storage import storage


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A signature that is in a run."""

    path: Path
    key_id: str
    subjects: tuple[str, ...]
    """Names of the units that it covers."""
    existed: bool
    """Whether the same key had signed the same roots before, so that nothing was written."""


def sign_run(run: Path, key: Path) -> Signature:
    """Sign a sealed run and its current units. Units added later need another signature.

    Raises `RequestError` without a sealed run or a key that can be used, `RecordError` if the run does not verify.
    """
    signer = keys.signer(key)
    opened = RunRecord.open(run)
    # Level 0 only: a signature vouches for bytes, not for their meaning.
    result = verify(run, level=0)
    if failed := [f"{check.id}: {check.text}" for check in result.checks if check.verdict == "failed"]:
        raise RecordError(f"{run} does not verify, so it is not signed: {'; '.join(failed[:3])}")
    subjects = [{"name": subject_name(opened.manifest, path), "digest": {"sha256": root}}
                for path, root in sorted(unit_roots(run).items())]
    signed = line(envelope.seal({**FORM, "subject": subjects}, signer))
    folder = run / ATTEST
    with storage(folder, "write"):
        folder.mkdir(exist_ok=True)
    # Two commands at once would take the same number.
    lock = DirectoryLock(folder)
    try:
        envelopes = sorted(path for path in folder.iterdir() if ENVELOPE_NAME.fullmatch(path.name))
        # Ed25519 is deterministic: the same key and bytes give the same signature.
        existing = next((path for path in envelopes if path.read_bytes() == signed), None)
        path = existing or _next_envelope(folder, envelopes)
        if existing is None:
            public = folder / f"{signer.public_key.keyid}{keys.PUBLIC_SUFFIX}"
            # The key before the envelope: one without the other is refused, a key alone is not.
            atomic.write_bytes(public, keys.public_pem(signer.public_key))
            atomic.write_bytes(path, signed)
    finally:
        lock.release()
    return Signature(path=path, key_id=str(signer.public_key.keyid), existed=existing is not None,
                     subjects=tuple(str(subject["name"]) for subject in subjects))


def unit_roots(run: Path) -> dict[str, str]:
    """Root digests of a run and of the units in it, by path. Raises `RecordError` for one that is not sealed."""
    roots = {"": root_digest(run)}
    for parent in UNIT_PARENTS:
        roots |= {f"{parent}/{inner.name}": root_digest(inner) for inner in sorted((run / parent).glob("*"))}
    return roots


def _next_envelope(folder: Path, envelopes: list[Path]) -> Path:
    """Path after the last envelope: `004.dsse.json` after `003.dsse.json`. Raises `RequestError` after number 999."""
    last = max((int(path.name[:3]) for path in envelopes), default=0)
    if last >= 999:
        raise RequestError(f"{folder} holds 999 signatures", "fewer of them", "remove those that are not needed")
    return folder / f"{last + 1:03d}.dsse.json"
