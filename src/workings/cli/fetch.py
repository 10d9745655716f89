"""`workings fetch`: a finished run out of an object store."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def fetch_command(
    source: Annotated[str, typer.Option(
        "--from", help="Address of a sealed run, a folder of runs, or a pack: gs://… or s3://….")],
    out: Annotated[Path, typer.Option("--out", help="Folder (of a pack: file) to make.")],
    expect_root: Annotated[str, typer.Option("--expect-root", help="Root digest that was kept elsewhere.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Copy a finished run out of an object store, and verify that it is what was sealed.

    Needs the extra `stores`. What differs from its seal is refused, and nothing is left behind.
    """
    from workings.runs.fetch import fetch

    fetched = fetch(source, out, expect_root)
    answer(fetched.to_json(), as_json=as_json,
           text=f"{fetched.path}: every file as it was sealed, root {fetched.root}\n"
                f"all checks: workings verify {quote(str(fetched.path))}")
