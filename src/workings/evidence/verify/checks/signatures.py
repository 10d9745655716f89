"""Level 0: signatures cover exactly this record, with the keys that they name."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.attest import envelope, keys
from workings.evidence.attest.envelope import ENVELOPE_NAME, PUBLIC_NAME, OpenedEnvelope
from workings.evidence.attest.statement import FORM, subject_name
from workings.evidence.verify import tree as trees
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, failed, finding_from, join_first, not_checked, passed
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.record.layout import ATTEST
from workings.record.untrusted_files import parsed_bytes

# Read before any sum could vouch for it, so a file of gigabytes must be refused by its size.
MAX_ENVELOPE_BYTES = 1 << 18
NO_LIBRARY = f"the libraries for signatures are not installed: {keys.INSTALL}"


@check("attestation.signed")
def signed(run: Unit) -> Iterator[CheckFinding]:
    """Files in `attest`, which no sum covers; each statement regenerated; Ed25519 over its exact bytes."""
    names, files = _envelopes(run), run.record.attest(run)
    problems, covered, good = list(_file_problems(run)), set[str](), []
    for name in names:
        try:
            opened = _open(run, name)
            covered |= _covered(run, opened)
        except RecordError as error:
            problems.append(f"{name}: {error}")
            continue
        for key_id in opened.key_ids:
            if f"{key_id}.pub" not in files:
                problems.append(f"{ATTEST}/{name}: the public key {shown(key_id)} is not next to it")
            # Without the libraries nothing is known about the signatures, which is not the same as a wrong one.
            elif keys.is_available():
                known = _public_key(run, f"{key_id}.pub")
                if known is not None and envelope.signed_by(opened, known):
                    good.append(f"{name}: signed by key {key_id}")
                else:
                    problems.append(f"{name}: not what key {shown(key_id)} signed")
    if problems or good:
        yield finding_from(problems, "; ".join(good), run)
    elif names:
        yield not_checked(NO_LIBRARY, run, blocking=False)
    else:
        yield not_checked("not signed", run, blocking=False)
    # A unit that was added after the signing is not a forgery; it only lacks its own signature.
    missing = sorted(subject_name(run.manifest, path) for path in _units_by_path(run) if path not in covered)
    if missing and names and not problems:
        yield not_checked(f"in no signed statement: {join_first(missing)}", run, blocking=False)


def _file_problems(run: Unit) -> Iterator[str]:
    for name, entry in sorted(run.record.attest(run).items()):
        if entry.kind != "file" or not any(form.fullmatch(name) for form in (ENVELOPE_NAME, PUBLIC_NAME)):
            yield f"{ATTEST}/{shown(name)}: neither an envelope nor a public key"
        elif PUBLIC_NAME.fullmatch(name) and keys.is_available():
            key = _public_key(run, name)
            # PEM readers skip text around the key, so the bytes are compared with the one form that holds nothing else.
            if key is None or f"{key.keyid}.pub" != name or read_attested(run, name) != keys.public_pem(key):
                yield f"{ATTEST}/{name}: not a public key of this name, or more than the key"


def _public_key(run: Unit, name: str) -> Any:
    """A public key; None for a file that holds none."""
    try:
        return keys.public_key(read_attested(run, name))
    except RecordError:
        return None


@check("attestation.trust")
def trust(run: Unit) -> Iterator[CheckFinding]:
    """Each signature's key against those of `--key`: a key in a record only shows that one signer made all."""
    # Keys that are in the record are never trusted by themselves: a forger can add a new key.
    if not run.record.given.trusted:
        if _envelopes(run):
            yield not_checked("signed, but no key was given to trust (--key)", run, blocking=False)
        return
    if not keys.is_available():
        # This one blocks the level, because the reader has asked for it by giving a key.
        yield not_checked(NO_LIBRARY, run)
        return
    trusted = [keys.public_key(data) for data in run.record.given.trusted]
    covered = set[str]()
    for name in _envelopes(run):
        opened = _opened_or_none(run, name)
        if opened and any(envelope.signed_by(opened, key) for key in trusted):
            covered |= _covered(run, opened)
    missing = sorted(subject_name(run.manifest, path) for path in _units_by_path(run) if path not in covered)
    named = ", ".join(str(key.keyid) for key in trusted)
    if missing:
        yield failed(f"not signed by key {named}: {join_first(missing)}", run)
    else:
        yield passed(f"{len(covered)} units signed by key {named}", run)


def _units_by_path(run: Unit) -> dict[str, Unit]:
    """The run and the units in it, by their path in the run."""
    inner = {unit.path[len(run.path):].lstrip("/"): unit for unit in run.record.units if unit.parent is run}
    return {"": run, **inner}


def _envelopes(run: Unit) -> list[str]:
    return sorted(name for name, entry in run.record.attest(run).items()
                  if entry.kind == "file" and ENVELOPE_NAME.fullmatch(name))


def read_attested(run: Unit, name: str) -> bytes:
    """A file next to a run's seal. Raises `RecordError` if it is missing or too large."""
    if name not in run.record.attest(run):
        raise RecordError(f"{ATTEST}/{name} is missing")
    return trees.read(run.record.tree, run.tree_path(f"{ATTEST}/{name}"), MAX_ENVELOPE_BYTES)


def _open(run: Unit, name: str) -> OpenedEnvelope:
    def read() -> OpenedEnvelope:
        data = read_attested(run, name)
        run.tree.cache.reserve(parsed_bytes(data))
        return envelope.open_envelope(data)
    # There may be hundreds, and two functions ask for each.
    return run.cached(f"{ATTEST}/{name}", read)


def _opened_or_none(run: Unit, name: str) -> OpenedEnvelope | None:
    """An envelope; None for one that `attestation.signed` refuses."""
    try:
        return _open(run, name)
    except RecordError:
        return None


def _covered(run: Unit, opened: OpenedEnvelope) -> set[str]:
    """Paths of the units that the statement names correctly. Raises `RecordError` for any other content."""
    statement = opened.statement
    if not isinstance(statement.get("subject"), list) or statement != {**FORM, "subject": statement["subject"]}:
        raise RecordError(f"not an in-toto statement of the form {FORM['predicateType']}")
    names = {subject_name(run.manifest, path): (path, unit) for path, unit in _units_by_path(run).items()}
    covered = set[str]()
    for subject in statement["subject"]:
        name = str(subject.get("name")) if isinstance(subject, dict) else ""
        if name not in names:
            raise RecordError(f"it names {shown(name)}, which is not here")
        path, unit = names[name]
        # Equal as a whole, because an extra digest or key would be unchecked.
        if subject != {"name": name, "digest": {"sha256": unit.root}}:
            raise RecordError(f"it names another root for {shown(name)} than {unit.root[:16]}…")
        covered.add(path)
    if "" not in covered:
        raise RecordError("it does not name the run itself")
    return covered
