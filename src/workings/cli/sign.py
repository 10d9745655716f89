"""`workings sign` and `workings key`: vouch for a run, and make the key for it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer

key_app = typer.Typer(no_args_is_help=True, help="Make a key that signs records.")


@key_app.callback()
def key_group() -> None:
    """Make a key that signs records."""


@key_app.command("new")
def new_command(
    out: Annotated[Path, typer.Option("--out", help="File to make for the private key; .pub is made beside it.")],
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase and encrypt the key.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make an Ed25519 key pair. Publish the file with .pub; the other one stays private."""
    from workings.evidence.attest.keys import new_key, require_available

    require_available()
    # Asked on standard error, which leaves standard output to the answer, and never taken from the command line, where
    # other users of the machine could read it.
    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True) if passphrase else ""
    key = new_key(out, secret)
    answer({"key_id": key.key_id, "private": str(key.private), "public": str(key.public)},
           as_json=as_json,
           text=f"key {key.key_id}\nprivate (keep it): {key.private}\npublic (publish it): {key.public}\n"
                f"to sign: workings sign RUN --key {key.private}")


def sign_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    key: Annotated[Path, typer.Option("--key", help="Private key that `workings key new` made.")],
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for the key's passphrase.")] = False,
    authority: Annotated[str, typer.Option(
        "--timestamp", metavar="URL", help="Have this time-stamp authority (RFC 3161) say when the signature was "
        "there; only a digest is sent.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Sign the root digests of a run and of the units in it.

    Writes an in-toto statement with SLSA provenance in a DSSE envelope into the run's folder attest.
    """
    from workings.evidence.attest import timestamp
    from workings.evidence.attest.keys import require_available
    from workings.evidence.attest.sign import sign_run

    require_available()
    if authority:
        timestamp.require_available()  # before anything is signed
    # Asked for and never an option: arguments of a command are visible to other users and stay in the shell's history.
    secret = typer.prompt("Passphrase", hide_input=True, err=True) if passphrase else ""
    signed = sign_run(run, key, secret)
    values: dict[str, object] = {"key_id": signed.key_id, "path": str(signed.path),
                                 "subjects": list(signed.subjects), "existed": signed.existed}
    stamped = ""
    if authority:
        path, stamp = timestamp.stamp_signature(signed.path, authority)
        values["timestamp"] = {"path": str(path), "time": stamp.time.isoformat(), "authority": stamp.authority}
        stamped = f"time stamp: before {stamp.text}\n{path}\n"
    answer(values, as_json=as_json,
           text=f"{'was signed before' if signed.existed else 'signed'} by key {signed.key_id}: "
                f"{', '.join(signed.subjects)}\n{signed.path}\n{stamped}"
                f"to check: workings verify {shlex.quote(str(run))} --key {shlex.quote(f'{key}.pub')}"
                f"{' --authority CERTIFICATE.pem' if stamped else ''}")
