"""Level 0: signatures cover exactly this record, with the keys that they name."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from workings.errors import RecordError
from workings.evidence.attest import envelope, keys
from workings.evidence.attest.envelope import ENVELOPE_NAME, FORM, PUBLIC_NAME, SignedStatement, subject_name
from workings.evidence.verify.record import Unit, field_of
from workings.evidence.verify.registry import Found, check, join_first, not_checked
from workings.evidence.verify.tree import shown
from workings.record.layout import ATTEST
from workings.record.storage import parsed_bytes

MAX_ENVELOPE_BYTES = 1 << 18
NO_LIBRARY = f"the libraries for signatures are not installed: {keys.INSTALL}"


@check("attestation.signed")
def signed(run: Unit) -> Found:
    """Files in `attest`, which no sum covers; each statement regenerated; Ed25519 over its exact bytes."""
    names, files = _envelopes(run), run.record.attest(run)
    yield from _file_problems(run)
    covered, good = set[str](), []  # names of units; sentences about the signatures that verify
    for name in names:
        try:
            opened = _open(run, name)
            covered |= _covered(run, opened)
        except RecordError as error:
            yield f"{name}: {error}"
            continue
        for key_id in (signature.keyid for signature in opened.signatures):
            if f"{key_id}.pub" not in files:
                yield f"{ATTEST}/{name}: the public key {shown(key_id)} is not next to it"
            elif keys.is_available():
                known = _public_key(run, f"{key_id}.pub")
                if known is not None and envelope.signed_by(opened, known):
                    good.append(f"{name}: signed by key {key_id}")
                else:
                    yield f"{name}: not what key {shown(key_id)} signed"
    if not names:
        return not_checked("not signed", blocking=False)
    if missing := sorted(_units_by_name(run).keys() - covered):
        yield not_checked(f"in no signed statement: {join_first(missing)}", blocking=False)
    return "; ".join(good) if good else not_checked(NO_LIBRARY, blocking=False)


def _units_by_name(run: Unit) -> dict[str, Unit]:
    """The run and the units in it, by their names in a statement."""
    return {subject_name(run.manifest, "" if unit is run else unit.path_in(run)): unit for unit in (run, *run.inside)}


def _file_problems(run: Unit) -> Iterator[str]:
    for name, entry in sorted(run.record.attest(run).items()):
        if entry.kind != "file" or not any(form.fullmatch(name) for form in (ENVELOPE_NAME, PUBLIC_NAME)):
            yield f"{ATTEST}/{shown(name)}: neither an envelope nor a public key"
        elif PUBLIC_NAME.fullmatch(name) and keys.is_available() and _public_key(run, name) is None:
            yield f"{ATTEST}/{name}: not a public key of this name, or more than the key"


def _public_key(run: Unit, name: str) -> Any:
    """The public key of a file that is named after it; None for a file that holds none, or more than the key."""
    with suppress(RecordError):
        data = _read(run, name)
        key = keys.public_key(data)
        # PEM readers skip text around the key; the one form of a record holds nothing else.
        if f"{key.keyid}.pub" == name and data == keys.public_pem(key):
            return key
    return None


@check("attestation.trust")
def trust(run: Unit) -> Found:
    """Each signature's key against those of `--key`: a forger could put any key into a record."""
    if not run.record.trusted:
        return not_checked("signed, but no key was given to trust (--key)", blocking=False) if _envelopes(run) else None
    if not keys.is_available():
        return not_checked(NO_LIBRARY)  # blocks the level, because the reader asks for it with a key
    trusted = [keys.public_key(data) for data in run.record.trusted]
    covered = set[str]()
    for name in _envelopes(run):
        with suppress(RecordError):  # `attestation.signed` refuses it
            opened = _open(run, name)
            if any(envelope.signed_by(opened, key) for key in trusted):
                covered |= _covered(run, opened)
    named = ", ".join(str(key.keyid) for key in trusted)
    if missing := sorted(_units_by_name(run).keys() - covered):
        yield f"not signed by key {named}: {join_first(missing)}"
    return f"{len(covered)} units signed by key {named}"


def _envelopes(run: Unit) -> list[str]:
    return sorted(name for name, entry in run.record.attest(run).items()
                  if entry.kind == "file" and ENVELOPE_NAME.fullmatch(name))


def _read(run: Unit, name: str) -> bytes:
    """A file next to a run's seal. Raises `RecordError` if it is missing or too large."""
    if name not in run.record.attest(run):
        raise RecordError(f"{ATTEST}/{name} is missing")
    return run.tree.read(run.tree_path(f"{ATTEST}/{name}"), MAX_ENVELOPE_BYTES)


def _open(run: Unit, name: str) -> SignedStatement:
    def read() -> SignedStatement:
        data = _read(run, name)
        run.tree.cache.reserve(parsed_bytes(data))
        return envelope.open_envelope(data)
    return run.cached(f"{ATTEST}/{name}", read)


def _covered(run: Unit, opened: SignedStatement) -> set[str]:
    """Names of the units in a statement. Raises `RecordError` unless it names each once, with its root, and the run."""
    subjects, units = opened.statement.get("subject"), _units_by_name(run)
    if not isinstance(subjects, list) or opened.statement != {**FORM, "subject": subjects}:
        raise RecordError(f"not an in-toto statement of the form {FORM['predicateType']}")
    by_name = {str(field_of(subject, "name")): subject for subject in subjects}
    for name, subject in by_name.items():
        # An extra digest or key would be unchecked.
        if name not in units or subject != {"name": name, "digest": {"sha256": units[name].root}}:
            raise RecordError(f"it names {shown(name)}, which is not here, or has another root")
    if len(by_name) != len(subjects) or run.manifest.name not in by_name:
        raise RecordError("it names a unit twice, or not the run itself")
    return set(by_name)
