"""`workings compare`: is B better than A, or is that noise? And is A worse than a saved baseline?"""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from workings.cli.options import refuse_unread
from workings.cli.output import answer, say
from workings.errors import RequestError
from workings.record.number_text import percent

CODES = {"not comparable": 2, "inconclusive": 3}
"""Exit codes of verdicts: as in every command, 2 means a wrong request and 3 an open result; else 0."""
OF_A_GATE = ("max_drop", "inconclusive")


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory or an evaluation.")],
    b: Annotated[Path | None, typer.Argument(
        metavar="B", help="A run directory or an evaluation on the same items; none with --gate or --save.")] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[MORE]...", help="Further runs: makes a table.")] = None,
    with_a: Annotated[list[Path] | None, typer.Option(help="Another seed of A's recipe.")] = None,
    with_b: Annotated[list[Path] | None, typer.Option(help="Another seed of B's recipe.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the comparison as one self-contained HTML "
                                              "page.")] = None,
    equivalent_within: Annotated[float | None, typer.Option(
        metavar="POINTS", help="Also test whether the two differ by less than this many percentage points.")] = None,
    gate: Annotated[Path | None, typer.Option(
        metavar="BASELINE", help="In place of B: a baseline that --save made, e.g. baselines/main. Fail "
        "(exit code 1) if A is worse.")] = None,
    max_drop: Annotated[float, typer.Option(help="With --gate: largest allowed loss, e.g. 0.02: two points.")] = 0.0,
    inconclusive: Annotated[Literal["pass", "fail", "3"], typer.Option(
        help="With --gate: exit code of an inconclusive result: pass, fail or 3.")] = "3",
    save: Annotated[Path | None, typer.Option(
        metavar="BASELINE", help="Save A's results as a baseline, small files to commit: baselines/main.")] = None,
) -> None:
    """Is B better than A, or is that noise? Or, with --gate: is A worse than a saved baseline?

    Compares two evaluations pair by pair: difference, 95 % interval, p value, verdict, items that flipped. --with-a
    and --with-b add seeds to a side; more than two runs make a table. --gate passes if a drop larger than allowed is
    ruled out, fails if it is certain: exit codes 0, 1, or 3 if inconclusive.
    """
    if gate is not None or save is not None:
        option = "--save" if gate is None else "--gate"
        if b is not None or (gate is not None and save is not None):
            raise RequestError(f"{option} cannot be combined with {'--save' if b is None else b}",
                               f"one run with {option}", f"workings compare {quote(str(a))} {option} {gate or save}")
        refuse_unread(f"with {option}", "these with two runs or more", "with_a", "with_b", "html", "equivalent_within")
        if save is not None:
            refuse_unread("with --save", "these with --gate", *OF_A_GATE)
            _save(a, save)
        elif gate is not None:
            _gate(a, gate, max_drop, inconclusive)
        return
    refuse_unread("without --gate", "these with --gate", *OF_A_GATE)
    if b is None:
        raise RequestError("B is missing", "a run directory or an evaluation on the same items",
                           f"workings compare {quote(str(a))} runs/B, or --gate BASELINE")
    if more:
        refuse_unread("with more than two runs", "these with two", "with_a", "with_b", "equivalent_within")
        _table([a, b, *more], html)
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
    breaks = {name: count_first_wrong_steps(EvaluationRecord(Path(side.path)))
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


def _gate(run: Path, baseline: Path, max_drop: float, inconclusive: str) -> None:
    from workings.evaluation.comparison.gate import gate

    values = gate(run, baseline=baseline.name, folder=baseline.parent, max_drop=max_drop)
    verdict = inconclusive if values["verdict"] == "inconclusive" else values["verdict"]
    answer(values, values["sentence"], {"pass": 0, "fail": 1, "3": 3}[verdict])


def _save(run: Path, baseline: Path) -> None:
    from workings.evaluation.comparison.gate import set_baseline
    from workings.evaluation.unit import find_unit

    # A baseline holds one evaluation: a run with several is refused.
    record = find_unit(run)
    path = set_baseline(baseline.parent, baseline.name, record)
    accuracy = record.summary["scorecard"]["overall"]["mean"]
    values = {"baseline": baseline.name, "file": str(path), "items": record.config["items"]["count"],
              "accuracy": accuracy}
    answer(values | ({"warning": record.warning} if record.warning else {}),
           f"{baseline.name}: {record.name}, accuracy {percent(accuracy)}, saved in {path}\n{record.warning}".rstrip())
