"""`workings compare`: is B better than A, or is that noise? And did it get worse by more than is allowed?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import refuse_unread
from workings.cli.output import answer, say
from workings.errors import RequestError

CODES = {"fail": 1, "not comparable": 2, "inconclusive": 3}
"""Exit codes of verdicts: as in every command, 2 means a wrong request and 3 an open result; else 0."""


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory or an evaluation.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="A run directory or an evaluation on the same items.")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[MORE]...", help="Further runs: makes a table.")] = None,
    with_a: Annotated[list[Path] | None, typer.Option(help="Another seed of A's recipe.")] = None,
    with_b: Annotated[list[Path] | None, typer.Option(help="Another seed of B's recipe.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the comparison as one self-contained HTML "
                                              "page.")] = None,
    equivalent_within: Annotated[float | None, typer.Option(
        metavar="POINTS", help="Also test whether the two differ by less than this many percentage points.")] = None,
    max_drop: Annotated[float | None, typer.Option(
        help="Instead: fail (exit code 1) if B's accuracy is below A's by more, e.g. 0.02: two points.")] = None,
) -> None:
    """Is B better than A, or is that noise? Or, with --max-drop: is B worse than A by more than is allowed?

    Compares two evaluations pair by pair: difference, 95 % interval, p value, verdict, items that flipped. --with-a
    and --with-b add seeds to a side; more than two runs make a table. --max-drop passes if a larger drop is ruled out,
    and fails if it is certain: exit codes 0, 1, or 3 if inconclusive.
    """
    if more:
        refuse_unread("with more than two runs", "these with two", "with_a", "with_b", "equivalent_within", "max_drop")
        _table([a, b, *more], html)
        return
    if max_drop is not None:
        refuse_unread("with --max-drop", "these without it", "with_a", "with_b", "html", "equivalent_within")
        from workings.evaluation.comparison.gate import gate

        values = gate(a, b, max_drop=max_drop)
        answer(values, values["sentence"], CODES.get(values["verdict"], 0))
        return
    if equivalent_within is not None and not 0 < equivalent_within < 100:
        raise RequestError(f"--equivalent-within cannot be {equivalent_within:g}",
                           "percentage points above 0 and below 100", "--equivalent-within 2")
    margin = None if equivalent_within is None else equivalent_within / 100
    if with_a or with_b:
        refuse_unread("with several seeds of a side", "these with two runs", "html", "equivalent_within")
        from workings.evaluation.comparison.several_runs import compare_seeds

        values = compare_seeds([a, *(with_a or [])], [b, *(with_b or [])])
        answer(values, "\n".join([values["sentence"], *(f"note: {note}" for note in values["notes"])]),
               CODES.get(values["verdict"], 0))
    else:
        _pair(a, b, margin, html)


def _pair(a: Path, b: Path, margin: float | None, html: Path | None) -> None:
    from workings.evaluation.comparison.compare import compare, comparison_text
    from workings.evaluation.first_wrong_step import KINDS, WRONG_STEP_KINDS, count_first_wrong_steps
    from workings.evaluation.unit import EvaluationRecord

    comparison = compare(a, b, equivalent_within=margin)
    _write_page(html, [a, b], comparison)
    breaks = {name: count_first_wrong_steps(EvaluationRecord(Path(side.path))).kinds
              for name, side in (("a", comparison.a), ("b", comparison.b)) if side is not None}
    lines = [comparison_text(comparison)]
    shown = [kind for kind in KINDS if any(kind in kinds for kinds in breaks.values())]
    if any(kind in WRONG_STEP_KINDS for kind in shown):
        lines += ["items by the line of their first wrong equation (A, B):",
                  *(f"  {kind:<20}  {breaks['a'].get(kind, 0):>6}  {breaks['b'].get(kind, 0):>6}" for kind in shown)]
    answer(comparison.to_json() | ({"first_wrong_step": breaks} if breaks else {}), "\n".join(lines),
           CODES.get(comparison.verdict, 0))


def _table(runs: Sequence[Path], html: Path | None) -> None:
    from workings.evaluation.comparison.several_runs import rank, ranking_text

    ranking = rank(runs)
    _write_page(html, runs)
    # A table has no single difference; the exit code says whether there is a best run.
    answer(ranking, ranking_text(ranking), 0 if "best" in ranking else CODES["inconclusive"])


def _write_page(html: Path | None, runs: Sequence[Path], comparison: Any = None) -> None:
    """Write the page, if it was asked for: before a result is printed, because it may fail."""
    if html is not None:
        from workings.reports.html import write_report

        write_report(html, runs, comparison)
        say(f"page: {html}")
