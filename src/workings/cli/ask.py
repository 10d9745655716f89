"""`workings ask`: ask a trained run, and its base model, one question."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workings.cli.options import RunArgument
from workings.cli.output import JsonFlag, answer, say, show
from workings.errors import RequestError

if TYPE_CHECKING:
    from workings.models.turns import Turn


def ask_command(
    run: RunArgument,
    question: Annotated[str, typer.Argument(help="The question in plain text.")],
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Longest answer, in tokens.")] = 256,
    base: Annotated[bool, typer.Option("--base", help="Ask the untrained model as well, afterwards.")] = False,
    also: Annotated[list[Path] | None, typer.Option(
        "--also", metavar="RUN", help="Another run to ask as well; may be repeated.")] = None,
    temperature: Annotated[float, typer.Option(
        "--temperature", min=0, help="0: the most likely token each time. Above 0: sampled.")] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of a sampled answer.")] = 0,
    history: Annotated[str, typer.Option(
        "--history", metavar="JSON", help="Earlier turns: a JSON list of objects with `role` and `content`, or a file "
        "with one.")] = "",
    pieces: Annotated[bool, typer.Option(
        "--pieces", help="With --json: first print each piece of text as a line while the model writes it.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a trained run one question; the answer is shown as it is written.

    With `--json` and `--base` or `--also`, the first answer is printed as a line at once; the last line has all
    answers.
    """
    from workings.evaluation.first_wrong_step import wrong_place
    from workings.runs.evaluate import Question, Reply, ask, ask_untrained

    asked = [run, *(also or [])]
    _refuse(question, asked, seed=seed, temperature=temperature)
    put_question = Question(text=question, history=_turns(history), max_new_tokens=max_new_tokens,
                            temperature=temperature, seed=seed)

    def values_of(path: Path, model: str, put: Callable[..., Reply] = ask) -> dict[str, Any]:
        """Show one model's answer as it is written. Returns its keys of `--json`."""
        if len(asked) + base > 1 and not as_json:
            show(f"{model}:\n" if path == run and put is ask else f"\n{model}:\n")

        def tell(piece: str) -> None:
            answer({"model": model, "piece": piece}, as_json=True, text="")

        shown = show if not as_json else tell if pieces else None
        reply = put(path, put_question, show=shown)
        wrong_step = wrong_place(reply.text)
        if not as_json:
            show("\n")
        # On standard error, because only the model's text is the answer.
        if reply.finish_reason == "length":
            say(f"cut off after {reply.tokens} tokens; --max-new-tokens {2 * max_new_tokens} for more")
        if wrong_step:
            say(wrong_step.text())
        return reply.to_json() | ({"wrong_step": wrong_step.to_json()} if wrong_step else {})

    values = values_of(run, "trained" if len(asked) == 1 else str(run))
    # Release each model before the next: two may not fit.
    if base or also:
        answer(values, as_json=as_json, text="")
    if also:
        values |= {"also": {str(path): values_of(path, str(path)) for path in also}}
    if base:
        values |= {"base": values_of(run, "untrained", ask_untrained)}
    answer(values, as_json=as_json, text="")


def _refuse(question: str, asked: list[Path], *, seed: int, temperature: float) -> None:
    """Raise `RequestError` for a request that makes no sense."""
    if not question.strip():
        raise RequestError("the question is empty", "a question", 'workings ask RUN "What is 17+25?"')
    if seed and not temperature:
        raise RequestError(f"--seed {seed} needs --temperature", "a sampled answer", "--temperature 0.7")
    for path in asked:
        if asked.count(path) > 1:
            raise RequestError(f"{path} is named twice", "each run once", f"--also another run than {path}")


def _turns(history: str) -> "tuple[Turn, ...]":
    """Earlier turns from a JSON text or the file that it names."""
    from workings.data.row_fields import history_of

    if not history:
        return ()
    try:
        return history_of(json.loads(history if history.lstrip().startswith("[") else Path(history).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise RequestError(f"--history {history[:60]} cannot be read: {error}",
                           "a JSON list of turns with `role` and `content`",
                           '--history \'[{"role": "user", "content": "Hi"}, …]\'') from None
