"""`workings ask`: put one question to a trained run."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer, say


def ask_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    question: Annotated[str, typer.Argument(help="The question, as a person would write it.")],
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Longest answer, in tokens.")] = 256,
    as_json: JsonFlag = False,
) -> None:
    """Ask a trained run one question."""
    from workings.runs.evaluate import ask
    from workings.scoring.wrong_step import wrong_place

    reply = ask(run, question, max_new_tokens=max_new_tokens)
    place = wrong_place(reply.text)
    answer(reply.as_json() | ({"wrong_step": place.to_json()} if place else {}), as_json=as_json, text=reply.text)
    # For the reader and not for a pipe: what the model wrote is the answer, this is about it.
    if place:
        say(place.text())
