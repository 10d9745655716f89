"""`workings quickstart`: the main job from end to end, on a CPU, without a network or an account."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import OverridesArgument
from workings.cli.output import JsonFlag, answer, as_typed, say
from workings.errors import Interrupted, RequestError


def quickstart_command(
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option(
        "--out", help="Folder to make, or the folder of an interrupted quickstart to resume; by "
        "default runs/quickstart, or the next free number.")] = None,
    seed: Annotated[int, typer.Option(
        "--seed", min=0, help="Seed of the data, the weights and the order of rows.")] = 17,
    tiny: Annotated[bool, typer.Option(
        "--tiny", help="Train a model of 0.2 million parameters to add; about a minute.")] = False,
    rewards: Annotated[bool, typer.Option(
        "--rewards", help="Also learn from its own correct answers, then from rewards; half an hour.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Teach a real model a calculation on a CPU, and prove it.

    Evaluates SmolLM2-135M, trains it with and without workings, evaluates again, compares, seals, verifies, reports.
    """
    from workings.runs.create_or_resume import run_directory
    from workings.runs.quickstarts.real import why_not_here

    out = out or run_directory("quickstart")
    reason = "" if tiny else why_not_here()
    if rewards and (tiny or reason):
        raise RequestError(f"--rewards needs the real model: {reason or '--tiny trains another one'}",
                           "SmolLM2-135M, or the tiny quickstart without rewards", "workings quickstart --tiny")
    if reason:
        say(f"the tiny model is trained in place of SmolLM2-135M: {reason}")
    try:
        result = _result(out, overrides or [], seed=seed, tiny=tiny or bool(reason), rewards=rewards)
    except KeyboardInterrupt as stop:
        if not (out / "recipes").is_dir():  # stopped before its data were made
            raise
        raise Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}; to resume: the same command with --out "
                          f"{shlex.quote(str(out))}") from None
    values = result.values | ({"real_model": f"not trained: {reason}"} if reason else {})
    answer(values, as_json=as_json, text=as_typed(result.text))


def _result(out: Path, overrides: list[str], *, seed: int, tiny: bool, rewards: bool) -> Any:
    """Run the requested quickstart."""
    if tiny:
        from workings.runs.quickstarts.tiny import tiny_quickstart

        return tiny_quickstart(out, overrides, seed=seed, say=say)
    if rewards:
        # Passed as an argument, because `runs` may not import `publish`.
        from workings.publish.export import export_run
        from workings.runs.quickstarts.real import rewards_quickstart

        return rewards_quickstart(out, overrides, export=export_run, seed=seed, say=say)
    from workings.runs.quickstarts.real import real_quickstart

    return real_quickstart(out, overrides, seed=seed, say=say)
