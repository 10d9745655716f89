"""`workings reward judge`: check a language model as the judge."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def judge_command(
    url: Annotated[str, typer.Option("--url", help="Endpoint of OpenAI's chat completions API, without "
                                     "/chat/completions; its key goes in WORKINGS_JUDGE_KEY.")],
    model: Annotated[str, typer.Option("--model", help="The model's name at the endpoint.")],
    items: Annotated[Path, typer.Option("--items", help="At least 200 JSON lines: prompt, expected_answer, completion, "
                                        "right (true or false).")],
    out: Annotated[Path, typer.Option("--out", help="The judge's file to write, for --scorer judge:FILE.")],
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Longest reply in tokens; more for a model "
                                            "that thinks "
                                            "first.")] = 64,
    as_json: JsonFlag = False,
) -> None:
    """Check a language model as the judge: agreement with labels, and resistance to persuasion.

    Writes the judge's file; exit code 1 if it did not pass.
    """
    from workings.runs.judge_check import check_judge, check_text

    judge = check_judge(url, model, items, out, max_tokens=max_tokens)
    answer(judge.recorded() | {"out": str(out)}, as_json=as_json, text=check_text(judge, out))
    if not judge.passed:
        raise typer.Exit(1)
