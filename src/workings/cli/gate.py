"""`workings baseline` and `workings gate`: keep a result, and hold later runs against it."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError
from workings.record.number_text import percent

baseline_app = typer.Typer(help="Keep an evaluation's results by name, to hold later runs against.",
                           no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--dir", help="Folder of the baselines.")]


@baseline_app.command("set")
def baseline_set_command(
    name: Annotated[str, typer.Argument(help="Name of the baseline.")],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or an evaluation.")],
    folder: Folder = Path("baselines"),
    as_json: JsonFlag = False,
) -> None:
    """Keep a run's results as a baseline for its items."""
    from workings.evaluation.comparison.baseline import set_baseline
    from workings.evaluation.unit import find_unit

    # Refuses a run with several evaluations: a baseline is of one.
    record = find_unit(run)
    path = set_baseline(folder, name, record)
    accuracy = record.summary["scorecard"]["overall"]["mean"]
    values = {"baseline": name, "file": str(path), "items": record.config["items"]["count"], "accuracy": accuracy}
    answer(values | ({"warning": record.warning} if record.warning else {}), as_json=as_json,
           text=f"{name}: {record.name}, accuracy {percent(accuracy)}, kept in {path}\n{record.warning}".rstrip())


@baseline_app.command("list")
def baseline_list_command(folder: Folder = Path("baselines"), as_json: JsonFlag = False) -> None:
    """Baselines in a folder."""
    from workings.evaluation.comparison.baseline import list_baselines

    baselines = list_baselines(folder)
    lines = [f"{entry['name']}  {entry['items']} items ({entry['items_digest'][:16]}…)  accuracy "
             f"{percent(entry['accuracy'])}  from {entry['source']}" for entry in baselines]
    answer({"baselines": baselines}, as_json=as_json, text="\n".join(lines) or f"no baselines in {folder}")


def gate_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or an evaluation.")],
    baseline: Annotated[str, typer.Option("--baseline", help="Name given to `baseline set`.")],
    metric: Annotated[str, typer.Option("--metric", help="The metric to compare.")] = "accuracy",
    max_drop: Annotated[float, typer.Option("--max-drop", help="Largest allowed loss, e.g. 0.02: two points.")] = 0.0,
    inconclusive: Annotated[str, typer.Option(
        "--inconclusive", help="Exit code of a result that shows neither: pass, fail or 3.")] = "3",
    folder: Folder = Path("baselines"),
    as_json: JsonFlag = False,
) -> None:
    """May this run pass?

    Passes if a larger drop than allowed is ruled out, fails if it is certain; exits 0, 1, or 3 for inconclusive.
    """
    from workings.evaluation.comparison.gate import EXIT_CODES, gate

    # An open result is neither a yes nor a no, so whoever automates says what it shall mean.
    codes = {"pass": 0, "fail": 1, "3": 3}
    if inconclusive not in codes:
        raise RequestError(f"--inconclusive {inconclusive}", "pass, fail or 3")
    passed = gate(run, baseline=baseline, folder=folder, metric=metric, max_drop=max_drop)
    answer(passed.to_json(), as_json=as_json, text=passed.sentence)
    code = codes[inconclusive] if passed.verdict == "inconclusive" else EXIT_CODES[passed.verdict]
    if code:
        raise typer.Exit(code)
