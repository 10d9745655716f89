"""`workings note`: say what is known only after a run."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def note_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    facts: Annotated[list[str], typer.Argument(
        metavar="KEY=VALUE", help="Facts, e.g. kaggle_notebook_version=7 kaggle_notebook_url=… kaggle_run_id=…")],
    as_json: JsonFlag = False,
) -> None:
    """Add facts that are known only afterwards, as a sealed note.

    Nothing that is sealed changes, and no value that the run recorded itself can be noted.
    """
    from workings.evidence.notes import parse_facts, write_note

    parsed = parse_facts(facts)
    path = write_note(run, parsed)
    answer({"note": str(path), "facts": parsed}, as_json=as_json,
           text=f"noted in {path}: {', '.join(f'{key} = {value}' for key, value in parsed.items())}")
