"""`workings data`: import, make, check and look at data."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from workings.cli import sample
from workings.cli.options import OverridesArgument, RecipeArgument, refuse_unread
from workings.cli.output import JsonFlag, answer, say
from workings.errors import RequestError
from workings.record.progress import slow_operation

MAX_SHOWN_OF_A_KIND = 5
"""Maximum number of findings shown per kind."""
data_app = typer.Typer(help="Traces and preference pairs: import, make, check, preview.", no_args_is_help=True,
                       rich_markup_mode=None)
MADE_TRACES, MADE_ITEMS = 500, 100
"""Default number of traces and items of `data make`."""
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


def check_command(
    file: Annotated[str, typer.Argument(help="A file of traces or of preference pairs, or a shipped name.")],
    against: Annotated[str, typer.Option("--against", help="Items that must not be trained on (or `eval`).")] = "",
    recipe: Annotated[str, typer.Option("--recipe", help="Also check the rows that this recipe makes of the "
                                        "data.")] = "",
    fix: Annotated[bool, typer.Option("--fix", help="Write NAME.clean.jsonl and NAME.left_out.jsonl.")] = False,
    findings: Annotated[Path | None, typer.Option("--findings", help="Write every finding to this file, a line "
                                                  "each.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Look for duplicates, conflicts, wrong arithmetic, pairs without a preference, and leaks.

    Exit code 1 if something that matters is found.
    """
    import tempfile

    from workings.data.checking.findings import write_clean
    from workings.data.checking.overlap import read_questions
    from workings.data.checking.pairs import holds_pairs
    from workings.data.generate import make_named
    from workings.data.named_sets import open_items_file, shipped_sets
    from workings.data.row_fields import lines_bytes
    from workings.record import atomic

    # Shipped sets are generated, so write them to a temporary folder for the check.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(file)
        if not path.is_file() and file in shipped_sets():
            path = Path(folder, f"{file}.jsonl")
            make_named(file, path, force=False)
        questions = read_questions(open_items_file(against, Path(folder, "items.jsonl"))) if against else []
        pairs = holds_pairs(path)
        read, report = _check(path, questions, recipe, pairs=pairs)
        if findings is not None:
            atomic.write_bytes(findings, lines_bytes(finding.to_json() for finding in report.findings))
        # The cleaned file would vanish with the temporary folder.
        if fix and path.parent == Path(folder):
            raise RequestError(f"--fix cannot change the shipped set {file}",
                               "a file of yours; the cleaned file is written next to it",
                               f"workings data make {file} --out {file}.jsonl")
        fixed: dict[str, Any] = {}
        if fix:
            clean, left_out = write_clean(read, report, path)
            fixed = {"clean": str(clean), "left_out": str(left_out),
                     "kept": read.records - len(report.left_out), "removed": len(report.left_out)}
    lines = _report_lines(report)
    lines += [f"every finding: {findings}"] if findings is not None else []
    lines += [f"kept {fixed['kept']} in {fixed['clean']}, left out {fixed['removed']}"] if fixed else []
    verdict = ("no problems found" if report.passed else
               f"{len(report.left_out)} {'pairs' if pairs else 'traces'} should not be trained on")
    answer(report.to_json() | fixed, as_json=as_json, text="\n".join([*lines, f"{report.records} records: {verdict}"]))
    if not report.passed:
        raise typer.Exit(1)


def _report_lines(report: Any) -> list[str]:
    """The count of each kind of finding, then the first findings of each kind that matters."""
    from collections import Counter

    from workings.data.checking.findings import ENTIRE_FILE, KINDS

    counts: Counter[str] = Counter()
    first = []
    for finding in report.findings:
        counts[finding.kind] += 1
        # Count before truncating.
        if (finding.matters or finding.record == ENTIRE_FILE) and counts[finding.kind] <= MAX_SHOWN_OF_A_KIND:
            first.append(finding)
    first.sort(key=lambda finding: list(KINDS).index(finding.kind))
    lines = [f"{'matters' if KINDS[kind][0] else 'note   '}  {count:>6}  {kind}: {KINDS[kind][1]}"
             for kind, count in report.counts.items()]
    return lines + [f"  {finding.id}: {finding.kind}: {finding.text}" for finding in first]


def _check(path: Path, questions: Any, recipe: str, *, pairs: bool) -> tuple[Any, Any]:
    """Read and check a file of traces or of preference pairs, and the rows that a recipe makes of it."""
    from workings.config.load import load_recipe
    from workings.data.checking.findings import read_tolerantly
    from workings.data.checking.pairs import check_pairs
    from workings.data.checking.run import check
    from workings.data.pair_rows import pair_problems
    from workings.data.preferences import pair_from_json
    from workings.data.rows import row_problems
    from workings.data.traces import trace_from_json

    read: Any = read_tolerantly(path, pair_from_json if pairs else trace_from_json)
    problems: Any = None
    if recipe:
        loaded = load_recipe(recipe)
        # Made once: training a tokenizer on the file takes seconds.
        tokenizer, template = _tokenizer_and_template(loaded, [entry for _, entry in read.entries])

        def of_rows(entries: Any) -> Any:
            return (pair_problems if pairs else row_problems)(entries, tokenizer, template, loaded.recipe.data)

        problems = of_rows
    return read, (check_pairs(read, questions, name=path.name, row_problems=problems) if pairs else
                  check(read, questions, row_problems=problems))


def preview_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    n: Annotated[int, typer.Option("--n", min=0, help="Rows to show.")] = 3,
    row: Annotated[str, typer.Option("--row", help="Show the row of this trace instead of the first ones; a pair's "
                                           "are ID/chosen and ID/rejected.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show rows as the model sees them: learned tokens in colour (or between « and »), control tokens visible."""
    from workings.config.load import load_recipe
    from workings.data.batches import Batches
    from workings.data.preview import entries_by_row, marked, pieces, summarize, turns_of, unread_columns
    from workings.inputs.datasets import find_data
    from workings.inputs.resolve import find_stop_tokens, find_weights
    from workings.ways.base import way_of

    # Resolved as in a run; no device is opened.
    loaded = load_recipe(recipe, overrides or [])
    entries = way_of(loaded.recipe).entries(find_data(loaded))
    tokenizer, template = _tokenizer_and_template(loaded, entries)
    resolved = loaded.recipe
    way = way_of(resolved)
    rows = way.build_rows(entries, tokenizer, template, resolved.data)
    batches = Batches(way.grouped(rows), seed=resolved.seed, rows_per_micro_batch=resolved.batch.micro_batch,
                      accumulation=resolved.batch.accumulation, data_config=resolved.data)
    summary = summarize(rows, batches, entries, resolved.data.learn)
    chosen = [shown_row for shown_row in rows.rows if shown_row.id == row] if row else list(rows.rows[:n])
    # Some traces make no row, for example because they are too long.
    if row and not chosen:
        raise RequestError(f"there is no row {row}", "the id of a row", "workings data preview without --row")
    entries_of_rows = entries_by_row(entries)
    rows_to_show = [(shown_row, pieces(shown_row, tokenizer), turns_of(entries_of_rows[shown_row.id], shown_row))
                    for shown_row in chosen]
    values = {**summary.to_json(), "dropped_rows": [vars(dropped_row) for dropped_row in rows.dropped[:20]], "shown": [
        {"id": shown_row.id, "tokens": len(shown_row.tokens), "supervised_tokens": shown_row.supervised_tokens,
         "turns": [vars(turn) for turn in turns], "text": marked(parts), "pieces": [vars(piece) for piece in parts]}
        for shown_row, parts, turns in rows_to_show]}
    stop = find_stop_tokens(loaded, find_weights(loaded, tensors=False), template)
    if notes := [note for note in (stop.disagreement, template.note, *unread_columns(entries)) if note]:
        values["notes"] = notes
    if not as_json:
        _print_rows(rows_to_show)
    answer(values, as_json=as_json,
           text="\n".join([summary.text(), *(f"note: {note}" for note in notes)]))


def _print_rows(shown: Any) -> None:
    """Print rows, in colour on a terminal that supports it."""
    from rich.console import Console
    from rich.text import Text

    from workings.data.preview import marked

    # No highlighting: it would colour numbers in the text.
    console = Console(highlight=False, soft_wrap=True)
    for row, parts, turns in shown:
        console.print(f"{row.id}: {len(row.tokens)} tokens, {row.supervised_tokens} learned", style="dim")
        # A single question needs no list of turns.
        if len(turns) > 2:
            console.print("turns: " + ", ".join(
                f"{turn.role} ({_turn_state(turn)})" for turn in turns), style="dim")
        line = Text()
        # Redirected output has no colours: « and » mark learned tokens instead.
        if console.color_system is None:
            line.append(marked(parts))
        for piece in parts if console.color_system else ():
            colour = "green" if piece.learned else "default"
            line.append(piece.text, f"bold reverse {colour}" if piece.control else colour)
        console.print(line)


def _turn_state(turn: Any) -> str:
    if turn.learned_tokens:
        return f"{turn.learned_tokens} tokens learned"
    return "input only, marked as not learned" if turn.marked else "read"


def _tokenizer_and_template(loaded: Any, entries: Any) -> Any:
    from workings.inputs.resolve import find_tokenizer, find_weights
    from workings.models.chat import ChatTemplate

    # Only the tokenizer: weights would be gigabytes to download.
    tokenizer = find_tokenizer(loaded, find_weights(loaded, tensors=False), entries)
    return tokenizer, ChatTemplate.for_config(loaded.recipe.data.template, tokenizer, loaded.recipe.data.reasoning)


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
    refuse_unread("without --hold-out", "--hold-out N, whose questions it decides", seed=bool(seed and not hold_out))
    # Only --revision downloads: a misspelt file name must not become a request to the Hub.
    opened = open_hub(file, revision=revision, subset=subset, split=split) if revision else open_file(Path(file))
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
    files = "\n".join(f"{digest[:16]}…  {path}" for path, digest in files_made["files"].items())
    answer(files_made, as_json=as_json, text=f"{files_made['traces']} traces, {files_made['items']} items\n{files}")


data_app.command("check")(check_command)
data_app.command("preview")(preview_command)
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
