"""`workings compare`: is B better than A, or is that noise?"""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer, say


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory or an evaluation.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="A run directory or an evaluation on the same items.")],
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page here as well.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Is B better than A, or is that noise?

    Compares two evaluations pair by pair: difference, 95 % interval, p value, verdict.
    """
    from workings.evaluation.compare import compare
    from workings.evaluation.words import comparison_text

    comparison = compare(a, b)
    if html is not None:
        from workings.reports.html import write_report

        write_report(html, [a, b], comparison)
        say(f"page: {html}")
    answer(comparison.to_json(), as_json=as_json, text=comparison_text(comparison))
    if comparison.verdict == "not comparable":
        raise typer.Exit(2)
    if comparison.verdict == "inconclusive":
        raise typer.Exit(3)
