"""`workings key`: make a key that signs records."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer

app = typer.Typer(no_args_is_help=True, help="Make a key that signs records.")


@app.callback()
def key_group() -> None:
    """Make a key that signs records."""


@app.command("new")
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
