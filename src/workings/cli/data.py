"""`workings data`: import, make, sample, check and look at data."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from workings.cli import sample
from workings.cli.options import OverridesArgument, RecipeArgument, Verb, refuse_unread
from workings.cli.output import answer, say
from workings.errors import RequestError
from workings.record.progress import slow_operation

MAX_SHOWN_OF_A_KIND = 5
"""Most findings that are shown per kind."""
data_app = typer.Typer(help="Traces and preference pairs: import, make, sample, check, preview.", no_args_is_help=True,
                       rich_markup_mode=None)
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


@data_app.command("import", cls=Verb)
def import_command(
    file: Annotated[str, typer.Argument(
        help="A file (JSON lines, JSON array, CSV, parquet), or OWNER/NAME on the Hub.")],
    out: Annotated[Path | None, typer.Option(help="File to write (JSON lines).",
                                             show_default="NAME.traces.jsonl, .pairs.jsonl, .verdicts.jsonl")] = None,
    format_name: Annotated[str, typer.Option("--format", help="Format of a record; `workings data list` names all.",
                                             show_default="what the first record looks like")] = "",
    key_map: Annotated[list[str] | None, typer.Option("--map", metavar="KEY=KEY,...", help="What the file calls the "
                       "format's keys: prompt=problem,answer=solution. May be given several times.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="KEY", help="A column to ignore although "
                      "its name suggests that the answer needs it. May be given several times.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Import only the first records; nothing after them "
                                      "is read.", show_default="all")] = None,
    hold_out: Annotated[int, typer.Option(min=0, help="Number of questions to split off as evaluation "
                        "items, next to the traces; similar questions are left out of the traces.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Decides which questions --hold-out takes.")] = 0,
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
) -> None:
    """Convert foreign data to traces, pairs or verdicts. Each record is written, or reported with its line number."""
    from workings.data.importing.formats import FORMATS, RAW_TEXT
    from workings.data.importing.hints import KeyMap, format_of, parse_map
    from workings.data.importing.run import ImportRequest, import_records
    from workings.data.importing.sources import open_file, open_hub

    if not revision:
        refuse_unread("without --revision", "these of a data set on the Hub", "subset", "split")
    if not hold_out:
        refuse_unread("without --hold-out", "--hold-out N, whose questions it decides", "seed")
    # Only --revision downloads, so that a misspelt file name is no request to the Hub.
    opened = open_hub(file, revision=revision, subset=subset, split=split) if revision else open_file(Path(file))
    labels = {"section": section, "category": category, "difficulty": difficulty, "licence": licence,
              "source": source or (opened.name if revision else Path(file).name)}
    request = ImportRequest(format=format_name, on_error=on_error, labels=labels, completions=completions, force=force,
                            keys=parse_map(key_map or ()), ignore=tuple(ignore or ()), hold_out=hold_out, seed=seed,
                            rows=rows or 0)
    if not format_name:
        request = replace(request, format=format_of(opened, KeyMap(request.keys)))
        learned = ": every word is learned" if request.format == RAW_TEXT else ""
        say(f"the first record looks like format {request.format}{learned}")
    gives = FORMATS[request.format].gives if request.format in FORMATS else "traces"
    out = out or Path(f"{opened.stem}.{gives}.jsonl")
    with slow_operation(f"importing {opened.name}"):
        result = import_records(opened, out, request)
    for reason, count in list(result.reasons.items())[:10]:
        say(f"rejected {count}: {reason}")
    first = "the first " if result.read == rows else ""
    written = f"{result.written} written to {out}" if result.sha256 else "nothing written"
    rejects = f" (see {result.rejects})" if result.rejects else ""
    lines = [f"{first}{result.read} read, {written}, {result.rejected} rejected{rejects}",
             *(f"note: {note}" for note in result.notes())]
    if result.looks_like:
        lines.append(f"these keys look like format {result.looks_like}: --format {result.looks_like}")
    answer(result.to_json(), "\n".join(lines), not result.written)


@data_app.command("make", cls=Verb)
def make_command(
    kind: Annotated[str, typer.Argument(help="addition, unit_conversion, a task of the library reasoning-gym, or a "
                                        "shipped name; see `workings data list`.")],
    out: Annotated[Path, typer.Option(help="Directory, or a .jsonl file for the traces.")],
    n: Annotated[int, typer.Option(min=0, help="Training traces.")] = 500,
    items: Annotated[int, typer.Option(min=0, help="Number of held-out items, all of them other problems.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal data.")] = 0,
    force: ForceFlag = False,
) -> None:
    """Generate problems with answers that are correct by construction, and disjoint evaluation items."""
    from workings.data.generate import make_files, make_named
    from workings.data.named_sets import SHIPPED_SETS

    # The counts and the seed of a shipped set are fixed.
    if kind in SHIPPED_SETS:
        refuse_unread(f"with {kind}, whose recipe says it", "these of a generator", "n", "items", "seed")
        files_made = make_named(kind, out, force=force)
    else:
        files_made = make_files(kind, n, items, seed, out, force=force)
    files = "\n".join(f"{digest[:16]}…  {path}" for path, digest in files_made["files"].items())
    answer(files_made, f"{files_made['traces']} traces, {files_made['items']} items\n{files}")


@data_app.command("check", cls=Verb)
def check_command(
    file: Annotated[str, typer.Argument(help="A file of traces or of preference pairs, or a shipped name.")],
    against: Annotated[str, typer.Option(help="Items that must not be trained on (or `eval`).")] = "",
    recipe: Annotated[str, typer.Option(help="Also check the rows that this recipe makes of the data.")] = "",
    fix: Annotated[bool, typer.Option("--fix", help="Write NAME.clean.jsonl and NAME.left_out.jsonl.")] = False,
    findings: Annotated[Path | None, typer.Option(help="Write every finding to this file, a line each.")] = None,
) -> None:
    """Look for duplicates, conflicts, wrong arithmetic, pairs without a preference, and leaks.

    Exit code 1 if something that matters is found.
    """
    from workings.data.checking.findings import write_clean
    from workings.data.checking.overlap import read_questions
    from workings.data.checking.pairs import holds_pairs
    from workings.data.generate import make_named
    from workings.data.named_sets import SHIPPED_SETS
    from workings.data.row_fields import lines_bytes
    from workings.inputs.datasets import read_prompts
    from workings.record import atomic

    questions: dict[str, str] = {}
    if Path(against).is_file():
        questions = read_questions(Path(against))
    elif against:
        questions = {item.prompt: item.id for item in read_prompts(against)}
    # A shipped set is no file: it is generated into this folder.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(file)
        is_shipped = not path.is_file() and file in SHIPPED_SETS
        if is_shipped:
            path = Path(folder, f"{file}.jsonl")
            make_named(file, path, force=False)
        pairs = holds_pairs(path)
        read, report = _check(path, questions, recipe, pairs=pairs)
        lines = _report_lines(report)
        if findings is not None:
            atomic.write_bytes(findings, lines_bytes(finding.to_json() for finding in report.findings))
            lines.append(f"every finding: {findings}")
        fixed: dict[str, Any] = {}
        if fix:
            if is_shipped:
                raise RequestError(f"--fix cannot change the shipped set {file}",
                                   "a file of yours; the cleaned file is written next to it",
                                   f"workings data make {file} --out {file}.jsonl")
            clean, left_out = write_clean(read, report, path)
            kept, removed = read.records - len(report.left_out), len(report.left_out)
            fixed = {"clean": str(clean), "left_out": str(left_out), "kept": kept, "removed": removed}
            lines.append(f"kept {kept} in {clean}, left out {removed}")
    verdict = "no problems found"
    if not report.passed:
        verdict = f"{len(report.left_out)} {'pairs' if pairs else 'traces'} should not be trained on"
    answer(report.to_json() | fixed, "\n".join([*lines, f"{report.records} records: {verdict}"]), not report.passed)


def _report_lines(report: Any) -> list[str]:
    """The count of each kind of finding, then the first findings of each kind that matters."""
    from workings.data.checking.findings import ENTIRE_FILE, KINDS

    lines = []
    for kind, count in report.counts.items():
        matters, meaning = KINDS[kind]
        lines.append(f"{'matters' if matters else 'note   '}  {count:>6}  {kind}: {meaning}")
    shown = [finding for finding in report.findings if finding.matters or finding.record == ENTIRE_FILE]
    for kind in KINDS:
        of_kind = [finding for finding in shown if finding.kind == kind]
        lines += [f"  {finding.id}: {kind}: {finding.text}" for finding in of_kind[:MAX_SHOWN_OF_A_KIND]]
    return lines


def _check(path: Path, questions: Any, recipe: str, *, pairs: bool) -> tuple[Any, Any]:
    """The `ReadFile` of a file of traces or preference pairs, and the `CheckReport` on it and a recipe's rows of it."""
    from workings.config.load import load_recipe
    from workings.data.checking.findings import read_tolerantly
    from workings.data.checking.run import check
    from workings.data.pair_rows import pair_problems
    from workings.data.preferences import pair_from_json
    from workings.data.rows import row_problems
    from workings.data.traces import trace_from_json

    read: Any = read_tolerantly(path, pair_from_json if pairs else trace_from_json)
    if not recipe:
        return read, check(read, questions)
    loaded = load_recipe(recipe)
    tokenizer, template = _tokenizer_and_template(loaded, [entry for _, entry in read.entries])
    find_problems: Any = pair_problems if pairs else row_problems

    def problems(entries: Any) -> Any:
        return find_problems(entries, tokenizer, template, loaded.recipe.data)

    return read, check(read, questions, row_problems=problems)


@data_app.command("preview", cls=Verb)
def preview_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    n: Annotated[int, typer.Option(min=0, help="Rows to show.")] = 3,
    row: Annotated[str, typer.Option(help="Show the row of this trace instead of the first ones; a pair's "
                                           "are ID/chosen and ID/rejected.")] = "",
) -> None:
    """Show rows as the model sees them: learned tokens between « and », control tokens visible."""
    from workings.config.load import load_recipe
    from workings.data.batches import Batches
    from workings.data.pair_rows import build_example_rows, grouped
    from workings.data.preview import entries_by_row, marked, pieces, summarize, turns_of, unread_columns
    from workings.inputs.datasets import find_data
    from workings.inputs.resolve import find_stop_tokens, find_weights

    loaded = load_recipe(recipe, overrides or [])
    resolved = loaded.recipe
    entries = find_data(loaded).examples
    tokenizer, template = _tokenizer_and_template(loaded, entries)
    rows = build_example_rows(resolved.algorithm.examples, entries, tokenizer, template, resolved.data)
    batches = Batches(grouped(resolved.algorithm.examples, rows), seed=resolved.seed,
                      rows_per_micro_batch=resolved.batch.micro_batch, accumulation=resolved.batch.accumulation,
                      data_config=resolved.data)
    summary = summarize(rows, batches, entries, resolved.data.learn)
    chosen = [each for each in rows.rows if each.id == row] if row else list(rows.rows[:n])
    if row and not chosen:
        raise RequestError(f"there is no row {row}", "the id of a row", "workings data preview without --row")
    entry_of = entries_by_row(entries, rows)
    shown, lines = [], []
    for each in chosen:
        parts, turns = pieces(each, tokenizer), turns_of(entry_of[each.id], each)
        shown.append({
            "id": each.id, "tokens": len(each.tokens), "supervised_tokens": each.supervised_tokens,
            "turns": [vars(turn) for turn in turns], "text": marked(parts), "pieces": [vars(piece) for piece in parts]})
        lines.append(f"{each.id}: {len(each.tokens)} tokens, {each.supervised_tokens} learned")
        if len(turns) > 2:
            lines.append("turns: " + ", ".join(f"{turn.role} ({_turn_state(turn)})" for turn in turns))
        lines.append(marked(parts))
    values = {**summary.to_json(), "dropped_rows": [vars(dropped) for dropped in rows.dropped[:20]], "shown": shown}
    stop = find_stop_tokens(loaded, find_weights(loaded, tensors=False), template)
    notes = [note for note in (stop.disagreement, template.note, *unread_columns(entries)) if note]
    if notes:
        values["notes"] = notes
    answer(values, "\n".join([*lines, summary.text(), *(f"note: {note}" for note in notes)]))


def _turn_state(turn: Any) -> str:
    if turn.learned_tokens:
        return f"{turn.learned_tokens} tokens learned"
    return "input only, marked as not learned" if turn.marked else "read"


def _tokenizer_and_template(loaded: Any, entries: Any) -> Any:
    from workings.inputs.resolve import find_tokenizer, find_weights
    from workings.models.chat import ChatTemplate

    # Without the tensors of the weights, which may be gigabytes to download.
    tokenizer = find_tokenizer(loaded, find_weights(loaded, tensors=False), entries)
    return tokenizer, ChatTemplate.for_config(loaded.recipe.data.template, tokenizer, loaded.recipe.data.reasoning)


data_app.command("sample", cls=Verb)(sample.sample_command)
data_app.command("select", cls=Verb)(sample.select_command)


@data_app.command("list", cls=Verb)
def list_command() -> None:
    """List shipped data sets, generators and import formats."""
    from workings.data.importing.formats import FORMATS
    from workings.data.named_sets import KINDS, SHIPPED_SETS

    sets = {name: {"summary": recipe.summary, "holds": recipe.holds, "sha256": recipe.sha256}
            for name, recipe in SHIPPED_SETS.items()}
    values: dict[str, Any] = {"sets": sets, "kinds": list(KINDS)}
    lines = ["data sets:", *(f"  {name:<16}{facts['summary']}  ({facts['sha256'][:12]}…)"
                             for name, facts in sets.items()),
             "kinds of `data make`:", f"  {', '.join(KINDS)}, and the tasks of the library reasoning-gym"]
    for key, gives, heading in (("formats", "traces", "formats of `data import` that give traces:"),
                                ("pair_formats", "pairs", "that give preference pairs:"),
                                ("verdict_formats", "verdicts", "and that give verdicts:")):
        values[key] = {name: each.keys for name, each in FORMATS.items() if each.gives == gives}
        lines += [heading, *(f"  {name:<24}{keys}" for name, keys in values[key].items())]
    answer(values, "\n".join(lines))
