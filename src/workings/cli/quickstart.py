"""`workings quickstart`: the main job from end to end, on a CPU, without a network."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer, as_typed, say
from workings.errors import Interrupted


def quickstart_command(
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", help="Overrides of the recipe, e.g. training.steps=40.")] = None,
    out: Annotated[Path | None, typer.Option(
        "--out", help="Folder to make for everything, or that of a quickstart that was cut short, which goes on; by "
        "default runs/quickstart, or the next free number.")] = None,
    seed: Annotated[int, typer.Option(
        "--seed", min=0, help="Seed of the data, the weights and the order of rows.")] = 17,
    full: Annotated[bool, typer.Option("--full", help="A third run: answers only, as many supervised tokens.")] = False,
    rewards: Annotated[bool, typer.Option(
        "--rewards", help="Learn from rewards instead: against the start, more imitation, random rewards.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """The main job on a CPU, from data to sealed runs.

    Trains a tiny model twice, with and without its workings; evaluates, compares, seals, verifies, reports.
    """
    from workings.runs.create_or_resume import run_directory

    out = out or run_directory("quickstart")
    try:
        if rewards:
            from workings.publish.export import export_run
            from workings.runs.quickstarts.quickstart_rewards import quickstart_rewards

            # Handed in, because `publish` stands above `runs`, which may not import it.
            learned = quickstart_rewards(out, overrides or (), export=export_run, seed=seed, full=full, say=say)
            values, text = learned.to_json(), learned.text()
        else:
            from workings.runs.quickstarts.quickstart import quickstart

            result = quickstart(out, overrides or (), seed=seed, full=full, say=say)
            values, text = result.to_json(), result.text()
    except KeyboardInterrupt as stop:
        if not (out / "recipes").is_dir():  # its data were not made yet
            raise
        raise Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}; to go on: the same command with --out "
                          f"{shlex.quote(str(out))}") from None
    answer(values, as_json=as_json, text=as_typed(text))
