"""`workings compare`: is B better than A, or is that noise?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.output import JsonFlag, answer, say
from workings.errors import RequestError

if TYPE_CHECKING:
    from workings.evaluation.first_wrong_step import FirstWrongSteps

# As in every command, 2 means a wrong request and 3 an open result.
NOT_COMPARABLE, INCONCLUSIVE = 2, 3


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory or an evaluation.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="A run directory or an evaluation on the same items.")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[MORE]...", help="Further runs: makes a table.")] = None,
    with_a: Annotated[list[Path] | None, typer.Option("--with-a", help="Another seed of A's recipe.")] = None,
    with_b: Annotated[list[Path] | None, typer.Option("--with-b", help="Another seed of B's recipe.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write the comparison as one self-contained HTML "
                                              "page.")] = None,
    equivalent_within: Annotated[float | None, typer.Option(
        "--equivalent-within", metavar="POINTS", help="Also test whether the two differ by less than this many "
        "percentage points.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Is B better than A, or is that noise?

    Compares two evaluations pair by pair: difference, 95 % interval, p value, verdict, items that flipped. --with-a
    and --with-b add seeds to a side; more than two runs make a table.
    """
    seeds_a, seeds_b = [a, *(with_a or [])], [b, *(with_b or [])]
    # One more seed on either side asks for the comparison of seeds.
    several_seeds = len(seeds_a) + len(seeds_b) > 2
    if more and several_seeds:
        raise RequestError("--with-a and --with-b compare two runs, not more",
                           "a table of runs, or several seeds of two")
    if equivalent_within is not None:
        if more:
            raise RequestError("--equivalent-within compares two runs, not a table of them",
                               "two evaluations, or several seeds of two", "further runs as --with-a and --with-b")
        if not 0 < equivalent_within < 100:
            raise RequestError(f"--equivalent-within cannot be {equivalent_within:g}",
                               "percentage points above 0 and below 100", "--equivalent-within 2")
    margin = None if equivalent_within is None else equivalent_within / 100
    if more:
        _table([a, b, *more], html, as_json)
    elif several_seeds:
        if html is not None:
            raise RequestError("--html has no page about several seeds of a side", "--html with two to four runs",
                               "leave out --html, or --with-a and --with-b")
        from workings.evaluation.comparison.several_runs import compare_seeds

        result = compare_seeds(seeds_a, seeds_b, equivalent_within=margin)
        answer(result.values, as_json=as_json,
               text="\n".join([result.sentence, *(f"note: {note}" for note in result.notes)]))
        _exit(result.verdict)
    else:
        _pair(a, b, margin, html, as_json)


def _pair(a: Path, b: Path, margin: float | None, html: Path | None, as_json: bool) -> None:
    from workings.evaluation.comparison.compare import compare, comparison_text
    from workings.evaluation.first_wrong_step import count_first_wrong_steps
    from workings.evaluation.unit import EvaluationRecord

    comparison = compare(a, b, equivalent_within=margin)
    if html is not None:
        from workings.reports.html import write_report

        # Write the page first: if that fails, no result has been printed.
        write_report(html, [a, b], comparison)
        say(f"page: {html}")
    # First wrong equations of both; none if they are not comparable.
    breaks = {name: count_first_wrong_steps(EvaluationRecord(Path(side.path)))
              for name, side in (("a", comparison.a), ("b", comparison.b)) if side is not None}
    values = comparison.to_json() | ({"first_wrong_step": {side: own.kinds for side, own in breaks.items()}}
                                     if breaks else {})
    answer(values, as_json=as_json, text="\n".join([comparison_text(comparison), *_breaks_text(breaks)]))
    _exit(comparison.verdict)


def _breaks_text(breaks: "dict[str, FirstWrongSteps]") -> list[str]:
    from workings.evaluation.first_wrong_step import KINDS, WRONG_STEP_KINDS

    shown = [kind for kind in KINDS if any(kind in side.kinds for side in breaks.values())]
    if not any(kind in WRONG_STEP_KINDS for kind in shown):
        return []
    rows = [(kind, *(str(side.kinds.get(kind, 0)) for side in breaks.values())) for kind in shown]
    return ["items by the line of their first wrong equation (A, B):",
            *(f"  {kind:<20}  {a:>6}  {b:>6}" for kind, a, b in rows)]


def _table(runs: Sequence[Path], html: Path | None, as_json: bool) -> None:
    from workings.evaluation.comparison.several_runs import rank

    ranking = rank(runs)
    if html is not None:
        from workings.reports.html import write_report

        write_report(html, runs)
        say(f"page: {html}")
    answer(ranking.to_json(), as_json=as_json, text=ranking.text())
    # A table has no single difference; the exit code says whether there is a best run.
    _exit("better" if ranking.best else "inconclusive")


def _exit(verdict: str) -> None:
    """The exit code: evaluations that are not comparable are a wrong request; an open result is not a yes."""
    if verdict == "not comparable":
        raise typer.Exit(NOT_COMPARABLE)
    if verdict == "inconclusive":
        raise typer.Exit(INCONCLUSIVE)
