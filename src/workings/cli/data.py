"""`workings data`: import, make, check and look at traces."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from workings.cli import data_look, sample
from workings.cli.options import refuse_unread
from workings.cli.output import JsonFlag, answer, say
from workings.record.progress import slow_operation

data_app = typer.Typer(help="Traces and preference pairs: import, make, check, preview.", no_args_is_help=True,
                       rich_markup_mode=None)

MADE_TRACES, MADE_ITEMS = 500, 100
"""Default number of traces and items of `data make`."""
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


@data_app.command("import")
def import_command(
    file: Annotated[str, typer.Argument(
        help="A file (JSON lines, JSON array, CSV, parquet), or OWNER/NAME on the Hub.")],
    out: Annotated[Path | None, typer.Option("--out", help="File to write (JSON lines).",
                                             show_default="NAME.traces.jsonl, .pairs.jsonl, .verdicts.jsonl")] = None,
    format_name: Annotated[str, typer.Option("--format", help="Format of a record; `workings data list` names all.",
                                             show_default="what the first record looks like")] = "",
    key_map: Annotated[list[str] | None, typer.Option("--map", metavar="KEY=KEY,...", help="What the file calls the "
                       "format's keys: prompt=problem,answer=solution. May be given several times.")] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", metavar="KEY", help="A column to ignore although "
                      "its name suggests that the answer needs it. May be given several times.")] = None,
    columns: Annotated[str, typer.Option("--columns", metavar="NAME,...", help="Column names of a CSV file "
                                         "without a header.")] = "",
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Import only the first records; nothing after them "
                                      "is read.", show_default="all")] = None,
    hold_out: Annotated[int, typer.Option("--hold-out", min=0, help="Number of questions to split off as evaluation "
                        "items, next to the traces; similar questions are left out of the traces.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides which questions --hold-out takes.")] = 0,
    on_error: Annotated[Literal["fail", "skip"], typer.Option(
        help="fail: stop at the first bad record; skip: set it aside.")] = "fail",
    completions: Annotated[Literal["split", "keep"], typer.Option(
        help="Completions of prompt-completion: split into steps and answer, or keep as one text.")] = "split",
    revision: Annotated[str, typer.Option(help="Commit, tag or branch; makes FILE a data set on the Hub.")] = "",
    subset: Annotated[str, typer.Option(help="Configuration of the data set on the Hub.")] = "",
    split: Annotated[str, typer.Option(help="Split of the data set on the Hub.")] = "train",
    section: Annotated[str, typer.Option(help="Section for records without one.")] = "",
    category: Annotated[str, typer.Option(help="Category for records without one.")] = "",
    difficulty: Annotated[str, typer.Option(help="Difficulty for records without one.")] = "",
    source: Annotated[str, typer.Option(help="Source for records without one; by default the file's name.")] = "",
    licence: Annotated[str, typer.Option("--licence", "--license", help="Licence for records without one.")] = "",
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Convert foreign data to traces, pairs or verdicts. Each record is written, or reported with its line number."""
    from workings.data.importing.formats import FORMATS, RAW_TEXT
    from workings.data.importing.hints import KeyMap, format_of, parse_map
    from workings.data.importing.run import ImportRequest, import_records
    from workings.data.importing.sources import open_file, open_hub

    if not revision:
        refuse_unread("without --revision", "these of a data set on the Hub", subset=bool(subset),
                      split=split != "train")
    refuse_unread("with --revision", "this of a CSV file", columns=bool(columns and revision))
    refuse_unread("without --hold-out", "--hold-out N, whose questions it decides", seed=bool(seed and not hold_out))
    # Only --revision downloads: a misspelt file name must not become a request to the Hub.
    opened = open_hub(file, revision=revision, subset=subset, split=split) if revision else open_file(
        Path(file), tuple(filter(None, columns.split(","))))
    labels = {"section": section, "category": category, "difficulty": difficulty, "licence": licence,
              "source": source or (opened.name if revision else Path(file).name)}
    request = ImportRequest(format=format_name, on_error=on_error, labels=labels, completions=completions, force=force,
                            keys=parse_map(key_map or ()), ignore=tuple(ignore or ()), hold_out=hold_out, seed=seed,
                            rows=rows or 0)
    if not format_name:
        request = replace(request, format=format_of(opened, KeyMap(request.keys)))
        say(f"the first record looks like format {request.format}"
            + (": every word is learned" if request.format == RAW_TEXT else ""))
    # In the working folder, because a data set on the Hub has no folder here.
    out = out or Path(f"{opened.stem}.{FORMATS[request.format].gives if request.format in FORMATS else 'traces'}.jsonl")
    with slow_operation(f"importing {opened.name}"):
        result = import_records(opened, out, request)
    # A wrong format rejects every record for a few reasons: print each reason once.
    for reason, count in list(result.reasons.items())[:10]:
        say(f"rejected {count}: {reason}")
    text = f"{'the first ' if result.read == rows else ''}{result.read} read, "
    text += (f"{result.written} written to {out}" if result.sha256 else "nothing written")
    text += f", {result.rejected} rejected"
    text += f" (see {result.rejects})" if result.rejects else ""
    lines = [text, *(result.held_out.text() if result.held_out else ()),
             *(f"note: {note}" for note in result.notes())]
    if result.looks_like:
        lines.append(f"these keys look like format {result.looks_like}: --format {result.looks_like}")
    answer(result.to_json(), as_json=as_json, text="\n".join(lines))
    # An error code, so that a script does not mistake this for an empty data set.
    if not result.written:
        raise typer.Exit(1)


@data_app.command("make")
def make_command(
    kind: Annotated[str, typer.Argument(help="addition, unit_conversion, a task of the library reasoning-gym, or a "
                                        "shipped name; see `workings data list`.")],
    out: Annotated[Path, typer.Option("--out", help="Directory, or a .jsonl file for the traces.")],
    n: Annotated[int, typer.Option("--n", min=0, help="Training traces.")] = MADE_TRACES,
    items: Annotated[int, typer.Option("--items", min=0, help="Number of held-out items, all of them other "
                                       "problems.")] = MADE_ITEMS,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Equal seeds give equal data.")] = 0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Generate problems with answers that are correct by construction, and disjoint evaluation items."""
    from workings.data.generate import make_files, make_named
    from workings.data.named_sets import shipped_sets

    # A shipped name is a whole recipe with a recorded digest: counts and seed cannot be changed.
    if kind in shipped_sets():
        refuse_unread(f"with {kind}, whose recipe says it", "these of a generator", n=n != MADE_TRACES,
                      items=items != MADE_ITEMS, seed=bool(seed))
        files_made = make_named(kind, out, force=force)
    else:
        files_made = make_files(kind, n, items, seed, out, force=force)
    files = "\n".join(f"{digest[:16]}…  {path}" for path, digest in files_made.files.items())
    answer(files_made.to_json(), as_json=as_json, text=f"{files_made.traces} traces, {files_made.items} items\n{files}")


data_app.command("check")(data_look.check_command)
data_app.command("preview")(data_look.preview_command)
data_app.command("select")(sample.select_command)


@data_app.command("list")
def list_command(as_json: JsonFlag = False) -> None:
    """List shipped data sets, generators and import formats."""
    from workings.data.importing.formats import FORMATS
    from workings.data.named_sets import KINDS, shipped_sets

    sets = {name: {"summary": recipe.summary, "holds": recipe.holds, "sha256": recipe.sha256}
            for name, recipe in shipped_sets().items()}
    formats, pair_formats, verdict_formats = (
        {name: each.keys for name, each in FORMATS.items() if each.gives == what}
        for what in ("traces", "pairs", "verdicts"))
    kinds = list(KINDS)
    lines = [f"{name:<16}{facts['summary']}  ({facts['sha256'][:12]}…)" for name, facts in sets.items()]
    values = {"sets": sets, "kinds": kinds, "formats": formats, "pair_formats": pair_formats,
              "verdict_formats": verdict_formats}
    answer(values, as_json=as_json, text="\n".join(
        ["data sets:", *(f"  {line}" for line in lines), "kinds of `data make`:",
         f"  {', '.join(kinds)}, and the tasks of the library reasoning-gym",
         "formats of `data import` that give traces:", *_rows(formats),
         "that give preference pairs:", *_rows(pair_formats), "and that give verdicts:", *_rows(verdict_formats)]))


def _rows(formats: dict[str, str]) -> list[str]:
    return [f"  {name:<24}{keys}" for name, keys in formats.items()]
