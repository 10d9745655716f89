"""`workings data check` and `preview`: look at data before training on them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import OverridesArgument, RecipeArgument
from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError

MAX_SHOWN_OF_A_KIND = 5
"""Maximum number of findings shown per kind."""


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
        read, report = (_check_pairs if pairs else _check_traces)(path, questions, recipe)
        if findings is not None:
            atomic.write_bytes(findings, lines_bytes(finding.to_json() for finding in report.findings))
        # The cleaned file would vanish with the temporary folder.
        if fix and path.parent == Path(folder):
            raise RequestError(f"--fix cannot change the shipped set {file}",
                               "a file of yours; the cleaned file is written next to it",
                               f"workings data make {file} --out {file}.jsonl")
        fixed = _write_fixed(read, report, path) if fix else {}
    lines = _report_lines(report)
    lines += [f"every finding: {findings}"] if findings is not None else []
    lines += [f"kept {fixed['kept']} in {fixed['clean']}, left out {fixed['removed']}"] if fixed else []
    verdict = ("no problems found" if report.passed else
               f"{len(report.left_out)} {'pairs' if pairs else 'traces'} should not be trained on")
    answer(report.to_json() | fixed, as_json=as_json, text="\n".join([*lines, f"{report.records} records: {verdict}"]))
    if not report.passed:
        raise typer.Exit(1)


def _write_fixed(read: Any, report: Any, path: Path) -> dict[str, Any]:
    """Write the cleaned file and the removed records. Returns paths and counts as keys of ``--json``."""
    from workings.data.checking.findings import write_clean

    clean, left_out = write_clean(read, report, path)
    return {"clean": str(clean), "left_out": str(left_out),
            "kept": read.records - len(report.left_out), "removed": len(report.left_out)}


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


def _check_traces(path: Path, questions: Any, recipe: str) -> tuple[Any, Any]:
    """Read and check a file of traces."""
    from workings.data.checking.findings import read_tolerantly
    from workings.data.checking.run import check
    from workings.data.rows import row_problems
    from workings.data.traces import trace_from_json

    read = read_tolerantly(path, trace_from_json)
    return read, check(read, questions, row_problems=_row_problems(recipe, read, row_problems))


def _check_pairs(path: Path, questions: Any, recipe: str) -> tuple[Any, Any]:
    """Read and check a file of preference pairs."""
    from workings.data.checking.findings import read_tolerantly
    from workings.data.checking.pairs import check_pairs
    from workings.data.pair_rows import pair_problems
    from workings.data.preferences import pair_from_json

    read = read_tolerantly(path, pair_from_json)
    return read, check_pairs(read, questions, name=path.name,
                             row_problems=_row_problems(recipe, read, pair_problems))


def preview_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    n: Annotated[int, typer.Option("--n", min=0, help="Rows to show.")] = 3,
    row: Annotated[str, typer.Option("--row", help="Show the row of this trace instead of the first ones; a pair's "
                                           "are ID/chosen and ID/rejected.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show rows as the model sees them: learned tokens in colour (or between « and »), control tokens visible."""
    from workings.data.batches import Batches
    from workings.data.preview import entries_by_row, marked, pieces, summarize, turns_of, unread_columns
    from workings.inputs.resolve import find_stop_tokens, find_weights
    from workings.ways.base import way_of

    loaded, entries, tokenizer, template = _open_recipe(recipe, overrides or [])
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
                f"{turn.role} ({_turn_state(turn)})"
                for turn in turns), style="dim")
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


def _open_recipe(name: str, overrides: list[str]) -> Any:
    """Recipe, traces or pairs, tokenizer and template, resolved as in a run; no device is opened."""
    from workings.config.load import load_recipe
    from workings.inputs.datasets import find_data
    from workings.ways.base import way_of

    loaded = load_recipe(name, overrides)
    entries = way_of(loaded.recipe).entries(find_data(loaded))
    return loaded, entries, *_tokenizer_and_template(loaded, entries)


def _tokenizer_and_template(loaded: Any, entries: Any) -> Any:
    from workings.inputs.resolve import find_tokenizer, find_weights
    from workings.models.chat import ChatTemplate

    # Only the tokenizer: weights would be gigabytes to download.
    tokenizer = find_tokenizer(loaded, find_weights(loaded, tensors=False), entries)
    return tokenizer, ChatTemplate.for_config(loaded.recipe.data.template, tokenizer, loaded.recipe.data.reasoning)


def _row_problems(recipe: str, read: Any, problems: Any) -> Any:
    """Function that finds problems in the rows that a recipe makes of the file; None without a recipe.

    Args:
        recipe: its name, or empty.
        read: the entries of the file.
        problems: `workings.data.rows.row_problems`, or the same of pairs.
    """
    if not recipe:
        return None
    from workings.config.load import load_recipe

    loaded = load_recipe(recipe)
    # Made once: training a tokenizer on the file takes seconds.
    tokenizer, template = _tokenizer_and_template(loaded, [entry for _, entry in read.entries])
    return lambda entries: problems(entries, tokenizer, template, loaded.recipe.data)
