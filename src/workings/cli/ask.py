"""`workings ask`: ask a trained run, and its base model, one question."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.options import RunArgument
from workings.cli.output import AS_JSON, answer, print_json, say, show
from workings.data.row_fields import history_of
from workings.errors import RequestError
from workings.models.turns import Turn
from workings.repetition import FoldedStream


def ask_command(
    run: RunArgument,
    question: Annotated[str, typer.Argument(help="The question in plain text.")],
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 256,
    base: Annotated[bool, typer.Option("--base", help="Ask the untrained model as well, afterwards.")] = False,
    temperature: Annotated[float, typer.Option(
        min=0, help="0: the most likely token each time. Above 0: sampled.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a sampled answer.")] = 0,
    history: Annotated[str, typer.Option(
        metavar="JSON", help="Earlier turns: a JSON list of objects with `role` and `content`, or a file "
        "with one.")] = "",
    pieces: Annotated[bool, typer.Option(
        "--pieces", help="With --json: first print each piece of text as a line while the model writes it.")] = False,
) -> None:
    """Ask a trained run one question; the answer is shown as it is written, and a long repetition is counted.

    With `--json` and `--base`, the first answer is printed as a line at once; the last line has both.
    """
    from workings.evaluation.first_wrong_step import wrong_place
    from workings.runs.evaluate import Question, ask

    if not question.strip():
        raise RequestError("the question is empty", "a question", 'workings ask RUN "What is 17+25?"')
    if seed and not temperature:
        raise RequestError(f"--seed {seed} needs --temperature", "a sampled answer", "--temperature 0.7")
    request = Question(text=question, history=_turns(history), max_new_tokens=max_new_tokens, temperature=temperature,
                       seed=seed)

    def values_of(model: str) -> dict[str, Any]:
        """Show the answer of the `trained` or `untrained` model as it is written. Returns its keys of `--json`."""
        untrained = model == "untrained"
        if AS_JSON.get():
            def print_piece(piece: str) -> None:
                print_json({"model": model, "piece": piece})

            reply = ask(run, request, untrained=untrained, show=print_piece if pieces else None)
        else:
            if base:
                show(f"\n{model}:\n" if untrained else f"{model}:\n")
            stream = FoldedStream(show)
            reply = ask(run, request, untrained=untrained, show=stream.add)
            stream.end()
            show("\n")
        wrong_step = wrong_place(reply.text)
        # On standard error, because only the model's text is the answer.
        if reply.finish_reason == "length":
            say(f"cut off after {reply.tokens} tokens; --max-new-tokens {2 * max_new_tokens} for more")
        if wrong_step:
            say(wrong_step.text())
        return reply.to_json() | ({"wrong_step": asdict(wrong_step)} if wrong_step else {})

    values = values_of("trained")
    if base:
        answer(values, "")
        values["base"] = values_of("untrained")
    answer(values, "")


def _turns(history: str) -> tuple[Turn, ...]:
    """Earlier turns from a JSON list, or from the file with one."""
    if not history:
        return ()
    try:
        text = history if history.lstrip().startswith("[") else Path(history).read_text("utf-8")
        return history_of(json.loads(text))
    except (OSError, ValueError) as error:
        raise RequestError(f"--history {history[:60]} cannot be read: {error}",
                           "a JSON list of turns with `role` and `content`",
                           '--history \'[{"role": "user", "content": "Hi"}, …]\'') from None
