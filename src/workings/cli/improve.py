"""`workings improve`: a model learns from what it gets right itself, round by round."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import OverridesArgument
from workings.cli.output import JsonFlag, answer, program, say
from workings.errors import Interrupted


def improve_command(
    recipe: Annotated[str, typer.Argument(
        help="A recipe that imitates traces and has held-out items.")],
    overrides: OverridesArgument = None,
    # `...` is Typer's mark of a required option behind an argument that has a default.
    out: Annotated[Path, typer.Option(
        "--out", help="Folder for all runs; an unfinished one is continued.")] = ...,  # type: ignore[assignment]
    prompts: Annotated[str, typer.Option(
        "--prompts", help="Questions with known answers: a file of items or traces, or a shipped set.",
    )] = ...,  # type: ignore[assignment]
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds after the start, at most.")] = 3,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Completions of each question in a round.")] = 4,
    temperature: Annotated[float, typer.Option(
        "--temperature", help="Sampling temperature of these completions.")] = 1.0,
    keep: Annotated[str, typer.Option("--keep", help="correct, best or all.")] = "correct",
    most: Annotated[int, typer.Option(
        "--most", min=0, help="Kept samples of one question at most; 0: all.")] = 2,
    prefer: Annotated[str, typer.Option(
        "--prefer", help="Order of a question's samples: first (as sampled), shortest or longest.")] = "first",
    near_duplicates: Annotated[float, typer.Option(
        "--near-duplicates", help="Leave out what is more similar than this to a kept one; 1: equal texts.")] = 1.0,
    balance: Annotated[str, typer.Option("--balance", help="none, difficulty or solved.")] = "none",
    all_rounds: Annotated[bool, typer.Option("--all-rounds", help="Go on after a round that did not help.")] = False,
    control: Annotated[bool, typer.Option(
        "--control", help="Also train on the recipe's own traces for as long as all rounds took.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a model learn from what it gets right itself.

    Each round draws from the model of the round before, keeps what is right, trains the recipe again from its first
    weights and compares; it stops when a round does not help. Killed, the same command goes on; with more --rounds,
    or --all-rounds, it goes on from where it ended.
    """
    from workings.runs.improve import ImproveRequest, improve
    from workings.samples.selection import Selection

    request = ImproveRequest(
        rounds=rounds, prompts=prompts, samples=samples, temperature=temperature, all_rounds=all_rounds,
        control=control,
        selection=Selection(keep=keep, most_per_prompt=most, prefer=prefer, near_duplicates=near_duplicates,
                            balance=balance))
    try:
        result = improve(recipe, out, overrides or (), request=request, say=say)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was finished is kept in {out}: the same command goes on") from None
    answer(result.to_json(), as_json=as_json, text=result.text(program()))
