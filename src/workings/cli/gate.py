"""`workings gate`: fail where a run is worse than a saved baseline."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from workings.cli.options import refuse_unread
from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError
from workings.record.number_text import percent


def gate_command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run directory or an evaluation.")] = None,
    baseline: Annotated[str, typer.Option("--baseline", help="Name of the saved baseline to compare with.")] = "",
    save: Annotated[str, typer.Option("--save", metavar="NAME", help="Save this run's results as a baseline.")] = "",
    max_drop: Annotated[float, typer.Option("--max-drop", help="Largest allowed loss, e.g. 0.02: two points.")] = 0.0,
    inconclusive: Annotated[Literal["pass", "fail", "3"], typer.Option(
        "--inconclusive", help="Exit code of an inconclusive result: pass, fail or 3.")] = "3",
    folder: Annotated[Path, typer.Option("--dir", help="Folder of the baselines.")] = Path("baselines"),
    as_json: JsonFlag = False,
) -> None:
    """Fail (exit code 1) if a run is worse than its baseline; --save makes a baseline.

    Passes if a drop larger than allowed is ruled out, fails if it is certain. Exit codes: 0, 1, or 3 if inconclusive.
    """
    compared = {"max_drop": bool(max_drop), "inconclusive": inconclusive != "3"}
    if run is None:
        raise RequestError("RUN is missing", "a run directory or an evaluation", "workings gate RUN --baseline NAME")
    if bool(baseline) == bool(save):
        raise RequestError("--baseline and --save cannot be combined" if save else "--baseline or --save is missing",
                           "--baseline NAME to compare with, or --save NAME to make one",
                           f"workings gate {quote(str(run))} --baseline NAME")
    if save:
        refuse_unread("with --save", "these with --baseline", **compared)
        _save_baseline(save, run, folder, as_json=as_json)
        return
    from workings.evaluation.comparison.gate import EXIT_CODES, gate

    passed = gate(run, baseline=baseline, folder=folder, max_drop=max_drop)
    answer(passed.values, as_json=as_json, text=passed.sentence)
    codes = EXIT_CODES | {"inconclusive": {"pass": 0, "fail": 1, "3": 3}[inconclusive]}
    code = codes[passed.verdict]
    if code:
        raise typer.Exit(code)


def _save_baseline(name: str, run: Path, folder: Path, *, as_json: bool) -> None:
    """Save a run's results as the baseline of its items."""
    from workings.evaluation.comparison.gate import set_baseline
    from workings.evaluation.unit import find_unit

    # A baseline holds one evaluation: a run with several is refused.
    record = find_unit(run)
    path = set_baseline(folder, name, record)
    accuracy = record.summary["scorecard"]["overall"]["mean"]
    values = {"baseline": name, "file": str(path), "items": record.config["items"]["count"], "accuracy": accuracy}
    answer(values | ({"warning": record.warning} if record.warning else {}), as_json=as_json,
           text=f"{name}: {record.name}, accuracy {percent(accuracy)}, saved in {path}\n{record.warning}".rstrip())
