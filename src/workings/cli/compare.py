"""`workings compare`: is B better than A, or is that noise? With a saved baseline: is A worse than that?"""

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
"""Verdict -> exit code; 0 for all others."""


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
    if gate is None:
        refuse_unread("with --save" if save is not None else "without --gate", "these with --gate", "max_drop",
                      "inconclusive")
    baseline = gate or save
    if baseline is not None:
        option = "--gate" if gate else "--save"
        if b is not None or (gate and save):
            raise RequestError(f"{option} cannot be combined with {b or '--save'}", f"one run with {option}",
                               f"workings compare {quote(str(a))} {option} {baseline}")
        refuse_unread(f"with {option}", "these with two runs or more", "with_a", "with_b", "html", "equivalent_within")
        if gate:
            _gate(a, baseline, max_drop, inconclusive)
        else:
            _save(a, baseline)
    elif b is None:
        raise RequestError("B is missing", "a run directory or an evaluation on the same items",
                           f"workings compare {quote(str(a))} runs/B, or --gate BASELINE")
    elif more:
        refuse_unread("with more than two runs", "these with two", "with_a", "with_b", "equivalent_within")
        from workings.evaluation.comparison.several_runs import rank, ranking_text

        ranking = rank([a, b, *more])
        _write_page(html, [a, b, *more])
        answer(ranking, ranking_text(ranking), 0 if "best" in ranking else CODES["inconclusive"])
    elif with_a or with_b:
        refuse_unread("with several seeds of a side", "these with two runs", "html", "equivalent_within")
        from workings.evaluation.comparison.several_runs import compare_seeds

        values = compare_seeds([a, *(with_a or [])], [b, *(with_b or [])])
        notes = [f"note: {note}" for note in values["notes"]]
        answer(values, "\n".join([values["sentence"], *notes]), CODES.get(values["verdict"], 0))
    else:
        _pair(a, b, equivalent_within, html)


def _pair(a: Path, b: Path, equivalent_within: float | None, html: Path | None) -> None:
    from workings.evaluation.comparison.compare import compare, comparison_text
    from workings.evaluation.first_wrong_step import KINDS, WRONG_STEP_KINDS, count_first_wrong_steps
    from workings.evaluation.unit import EvaluationRecord

    if equivalent_within is not None and not 0 < equivalent_within < 100:
        raise RequestError(f"--equivalent-within cannot be {equivalent_within:g}",
                           "percentage points above 0 and below 100", "--equivalent-within 2")
    share = None if equivalent_within is None else equivalent_within / 100
    comparison = compare(a, b, equivalent_within=share)
    _write_page(html, [a, b], comparison)
    values, text = comparison.to_json(), comparison_text(comparison)
    if comparison.a is not None and comparison.b is not None:
        in_a = count_first_wrong_steps(EvaluationRecord(Path(comparison.a.path)))
        in_b = count_first_wrong_steps(EvaluationRecord(Path(comparison.b.path)))
        values["first_wrong_step"] = {"a": in_a, "b": in_b}
        kinds = [kind for kind in KINDS if kind in in_a or kind in in_b]
        if any(kind in WRONG_STEP_KINDS for kind in kinds):
            text += "\nitems by the line of their first wrong equation (A, B):"
            text += "".join(f"\n  {kind:<20}  {in_a.get(kind, 0):>6}  {in_b.get(kind, 0):>6}" for kind in kinds)
    answer(values, text, CODES.get(comparison.verdict, 0))


def _write_page(html: Path | None, runs: Sequence[Path], comparison: Any = None) -> None:
    """Write the page if it was asked for; before the result is printed, because it may fail."""
    if html is not None:
        from workings.reports.html import write_report

        write_report(html, runs, comparison)
        say(f"page: {html}")


def _gate(run: Path, baseline: Path, max_drop: float, inconclusive: str) -> None:
    from workings.evaluation.comparison.gate import gate

    values = gate(run, baseline=baseline.name, folder=baseline.parent, max_drop=max_drop)
    # An inconclusive result has the exit code of a verdict that the caller chose, or 3.
    verdict = inconclusive if values["verdict"] == "inconclusive" else values["verdict"]
    answer(values, values["sentence"], {"pass": 0, "fail": 1, "3": 3}[verdict])


def _save(run: Path, baseline: Path) -> None:
    from workings.evaluation.comparison.gate import set_baseline
    from workings.evaluation.unit import find_unit

    record = find_unit(run)
    path = set_baseline(baseline.parent, baseline.name, record)
    accuracy = record.summary["scorecard"]["overall"]["mean"]
    values = {"baseline": baseline.name, "file": str(path), "items": record.config["items"]["count"],
              "accuracy": accuracy}
    text = f"{baseline.name}: {record.name}, accuracy {percent(accuracy)}, saved in {path}"
    if record.warning:
        values["warning"] = record.warning
        text += f"\n{record.warning}"
    answer(values, text)
