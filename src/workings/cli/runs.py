"""`workings runs`: list the runs of a folder, and sign one."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.options import JsonFlag, Verb
from workings.cli.output import answer
from workings.errors import RequestError
from workings.hints import typed_path
from workings.record.layout import PARTIAL_SUFFIX
from workings.record.number_text import percent, table_lines

if TYPE_CHECKING:
    from workings.ui.folder import Folder
    from workings.ui.listing import RunRow

runs_app = typer.Typer(help="List runs; sign one.", rich_markup_mode=None)


@runs_app.command("sign", cls=Verb)
def sign_command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A sealed run directory.")] = None,
    key: Annotated[Path | None, typer.Option(help="Private key that --new-key made.")] = None,
    new_key: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Make an Ed25519 key pair: FILE is private, publish FILE.pub.")] = None,
) -> None:
    """Sign the root digests of a run and of the units in it; --new-key makes a key.

    Writes an in-toto statement in a DSSE envelope to the run's folder attest.
    """
    from workings.evidence.attest import keys
    from workings.evidence.attest.sign import sign_run

    if new_key is not None:
        if run or key:
            raise RequestError("--new-key cannot be combined with a run or --key", "--new-key FILE alone",
                               f"workings runs sign --new-key {quote(str(new_key))}, "
                               "then workings runs sign RUN --key FILE")
        key_id, public = keys.new_key(new_key), f"{new_key}{keys.PUBLIC_SUFFIX}"
        answer({"key_id": key_id, "private": str(new_key), "public": public},
               f"key {key_id}\nprivate (keep it): {new_key}\npublic (publish it): {public}\n"
               f"to sign: workings runs sign RUN --key {new_key}")
        return
    if run is None or key is None:
        raise RequestError("RUN is missing" if run is None else "--key is missing",
                           "a sealed run and the private key that signs it",
                           f"workings runs sign {quote(str(run or 'runs/NAME'))} --key {key or 'KEY.pem'}; "
                           "workings runs sign --new-key KEY.pem makes a key")
    signed = sign_run(run, key)
    values = {"key_id": signed.key_id, "path": str(signed.path), "subjects": list(signed.subjects),
              "existed": signed.existed}
    verb = "was signed before" if signed.existed else "signed"
    answer(values, f"{verb} by key {signed.key_id}: {', '.join(signed.subjects)}\n{signed.path}\n"
           f"to check: workings verify {quote(str(run))} --key {quote(f'{key}.pub')}")


@runs_app.callback(invoke_without_command=True)
def list_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--dir", help="Folder that holds the runs.")] = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """List the runs of a folder: state, loss, accuracy, and how to resume stopped ones."""
    if context.invoked_subcommand is not None:
        return
    from workings.ui.folder import Folder
    from workings.ui.listing import run_rows

    if not folder.is_dir():
        raise RequestError(f"there is no folder {folder}", "a folder with runs",
                           "--dir FOLDER, or start one: workings train quickstart")
    runs = Folder(folder.resolve())
    rows = run_rows(runs, {})
    heading, *table = table_lines([["run", "state", "steps", "loss", "accuracy", ""], *map(_cells, rows)], rest="<")
    lines = [heading]
    for row, row_text in zip(rows, table, strict=True):
        lines += [row_text, *_resume_lines(row, runs)]
    values = [row.model_dump(exclude_defaults=True) | {"name": row.name} for row in rows]
    answer({"runs": values}, "\n".join(lines) if rows else f"no runs in {folder}")


def _cells(row: "RunRow") -> list[str]:
    steps = f"{row.steps}/{row.planned_steps}" if row.planned_steps else ""
    accuracy = f"{percent(row.accuracy['mean'])} of {row.accuracy['n']}" if row.accuracy else ""
    kept = f"{row.samples['kept']} of {row.samples['samples']} kept" if row.samples else ""
    loss = f"{row.loss:.4f}" if row.loss is not None else ""
    return [row.name.removesuffix(PARTIAL_SUFFIX), row.phase or row.state, steps, loss, accuracy or kept,
            row.problem or row.reason]


def _resume_lines(row: "RunRow", runs: "Folder") -> list[str]:
    from workings.reports.gather import recipe_of

    if row.kind != "run" or row.state not in ("stopped", "interrupted", "failed") or row.earlier_of:
        return []
    recipe = recipe_of(runs.path(row.name))
    shown = quote(typed_path(Path(recipe).resolve()) if Path(recipe).is_file() else recipe)
    out = quote(typed_path(runs.root / row.name.removesuffix(PARTIAL_SUFFIX)))
    return [f"  resume: workings train {shown} --out {out} --resume"]
