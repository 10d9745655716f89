"""`workings runs sign`: sign a run, or make the key for it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError


def sign_command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A sealed run directory.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Private key that --new-key made.")] = None,
    new_key: Annotated[Path | None, typer.Option(
        "--new-key", metavar="FILE", help="Make an Ed25519 key pair: FILE is private, publish FILE.pub.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign the root digests of a run and of the units in it; --new-key makes a key.

    Writes an in-toto statement in a DSSE envelope to the run's folder attest.
    """
    if new_key is not None:
        _make_key(new_key, run or key, as_json=as_json)
        return
    if run is None or key is None:
        raise RequestError("RUN is missing" if run is None else "--key is missing",
                           "a sealed run and the private key that signs it",
                           f"workings runs sign {'runs/NAME' if run is None else shlex.quote(str(run))} "
                           f"--key {key or 'KEY.pem'}; workings runs sign --new-key KEY.pem makes a key")
    from workings.evidence.attest.keys import require_available
    from workings.evidence.attest.sign import sign_run

    require_available()
    signed = sign_run(run, key)
    values = {"key_id": signed.key_id, "path": str(signed.path), "subjects": list(signed.subjects),
              "existed": signed.existed}
    answer(values, as_json=as_json,
           text=f"{'was signed before' if signed.existed else 'signed'} by key {signed.key_id}: "
                f"{', '.join(signed.subjects)}\n{signed.path}\n"
                f"to check: workings verify {shlex.quote(str(run))} --key {shlex.quote(f'{key}.pub')}")


def _make_key(out: Path, other: object, *, as_json: bool) -> None:
    """Make a key pair; nothing is signed."""
    if other:
        raise RequestError("--new-key cannot be combined with a run or --key", "--new-key FILE alone",
                           f"workings runs sign --new-key {shlex.quote(str(out))}, "
                           "then workings runs sign RUN --key FILE")
    from workings.evidence.attest.keys import new_key, require_available

    require_available()
    key = new_key(out)
    answer({"key_id": key.key_id, "private": str(key.private), "public": str(key.public)},
           as_json=as_json,
           text=f"key {key.key_id}\nprivate (keep it): {key.private}\npublic (publish it): {key.public}\n"
                f"to sign: workings runs sign RUN --key {key.private}")
