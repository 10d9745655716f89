"""`workings sign`: vouch for a run."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def sign_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    key: Annotated[Path, typer.Option("--key", help="Private key that `workings key new` made.")],
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for the key's passphrase.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Sign the root digests of a run and of the units in it.

    Writes an in-toto statement with SLSA provenance in a DSSE envelope into the run's folder attest.
    """
    from workings.evidence.attest.keys import require_available
    from workings.evidence.attest.sign import sign_run

    require_available()
    # Asked for and never an option: arguments of a command are visible to other users and stay in the shell's history.
    secret = typer.prompt("Passphrase", hide_input=True, err=True) if passphrase else ""
    signed = sign_run(run, key, secret)
    answer({"key_id": signed.key_id, "path": str(signed.path), "subjects": list(signed.subjects),
            "existed": signed.existed}, as_json=as_json,
           text=f"{'was signed before' if signed.existed else 'signed'} by key {signed.key_id}: "
                f"{', '.join(signed.subjects)}\n{signed.path}\n"
                f"to check: workings verify {run} --key {key}.pub")
