"""`workings improve`: a model learns from its own correct answers, round by round."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import OverridesArgument
from workings.cli.output import answer, program, say
from workings.errors import Interrupted


def improve_command(
    recipe: Annotated[str, typer.Argument(help="A recipe that learns from traces and has held-out items.")],
    overrides: OverridesArgument = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for all runs; an unfinished one is continued.")],
    prompts: Annotated[str, typer.Option(
        help="Questions with known answers: a file of items or traces, or a shipped set.")],
    rounds: Annotated[int, typer.Option(min=1, help="Maximum number of rounds.")] = 3,
    samples: Annotated[int, typer.Option(min=1, help="Completions per question and round.")] = 4,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 1.0,
    keep: Annotated[str, typer.Option(help="correct, best or all.")] = "correct",
    most: Annotated[int, typer.Option(min=0, help="Most samples kept per question; 0: all.")] = 2,
    all_rounds: Annotated[bool, typer.Option("--all-rounds", help="Continue after a round that did not help.")] = False,
) -> None:
    """Let a model learn from its own correct answers, in rounds.

    Each round samples from the last model, keeps correct completions, trains the recipe again from its base weights
    and compares; it stops when a round does not help. The same command resumes after a stop; with more --rounds, or
    --all-rounds, it continues.
    """
    from workings.runs.improve import ImproveRequest, improve
    from workings.samples.selection import Selection

    request = ImproveRequest(
        rounds=rounds, prompts=prompts, samples=samples, temperature=temperature, all_rounds=all_rounds,
        selection=Selection(keep=keep, most_per_prompt=most))
    try:
        result = improve(recipe, out, overrides or (), request=request, say=say)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was finished is kept in {out}; to resume, run the same command") from None
    answer(result.to_json(), result.text(program()))
