"""`workings quickstart`: the main job from end to end, on a CPU, without a network or an account."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import OverridesArgument
from workings.cli.output import answer, as_typed, say
from workings.errors import Interrupted, RequestError


def quickstart_command(
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option(
        help="Folder to make, or the folder of an interrupted quickstart to resume; by "
        "default runs/quickstart, or the next free number.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data, the weights and the order of rows.")] = 17,
    tiny: Annotated[bool, typer.Option(
        "--tiny", help="Train a model of 0.2 million parameters to add; about a minute.")] = False,
    rewards: Annotated[bool, typer.Option(
        "--rewards", help="Also learn from its own correct answers, then from rewards; half an hour.")] = False,
) -> None:
    """Teach a real model a calculation on a CPU, and prove it.

    Evaluates SmolLM2-135M, trains it with and without workings, evaluates again, compares, seals, verifies, reports.
    """
    from workings.publish.export import export_run
    from workings.runs.create_or_resume import run_directory
    from workings.runs.quickstarts import real
    from workings.runs.quickstarts import tiny as tiny_model

    out = out or run_directory("quickstart")
    reason = "" if tiny else real.why_not_here()
    needs_tiny = tiny or reason != ""
    if rewards and needs_tiny:
        raise RequestError(f"--rewards needs the real model: {reason or '--tiny trains another one'}",
                           "SmolLM2-135M, or the tiny quickstart without rewards", "workings quickstart --tiny")
    if reason:
        say(f"the tiny model is trained in place of SmolLM2-135M: {reason}")
    words = overrides or []
    try:
        if needs_tiny:
            result: Any = tiny_model.tiny_quickstart(out, words, seed=seed, say=say)
        elif rewards:
            # `export` is an argument, because `runs` must not import `publish`.
            result = real.rewards_quickstart(out, words, export=export_run, seed=seed, say=say)
        else:
            result = real.real_quickstart(out, words, seed=seed, say=say)
    except KeyboardInterrupt as stop:
        if not (out / "recipes").is_dir():  # stopped before its data were made
            raise
        raise Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}; to resume: the same command with --out "
                          f"{shlex.quote(str(out))}") from None
    answer(result.values | ({"real_model": f"not trained: {reason}"} if reason else {}), as_typed(result.text))
