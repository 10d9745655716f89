"""`workings ask`: put one question to a trained run, and to the model that it began with."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workings.cli.output import JsonFlag, answer, say

if TYPE_CHECKING:
    from workings.runs.evaluate import Reply


def ask_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    question: Annotated[str, typer.Argument(help="The question, as a person would write it.")],
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Longest answer, in tokens.")] = 256,
    base: Annotated[bool, typer.Option("--base", help="Ask the untrained model as well, afterwards.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a trained run one question.

    With `--base --json`, the trained model's answer is a line of its own as soon as it is there; the last line has
    both.
    """
    from workings.runs.evaluate import ask, ask_untrained

    values = _values(ask(run, question, max_new_tokens=max_new_tokens), "trained:\n" if base else "", as_json)
    if base:
        # The trained model is let go first: two may not fit where one was planned for.
        answer(values, as_json=as_json, text="")
        values |= {"base": _values(ask_untrained(run, question, max_new_tokens=max_new_tokens), "\nuntrained:\n",
                                   as_json)}
    if as_json:
        answer(values, as_json=True, text="")


def _values(reply: "Reply", title: str, as_json: bool) -> dict[str, Any]:
    """Keys of `--json` of one answer, which is shown at once."""
    from workings.scoring.wrong_step import wrong_place

    place = wrong_place(reply.text)
    answer({}, as_json=False, text="" if as_json else title + reply.text)
    # For the reader and not for a pipe: what the model wrote is the answer, this is about it.
    if place:
        say(place.text())
    return reply.as_json() | ({"wrong_step": place.to_json()} if place else {})
