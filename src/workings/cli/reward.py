"""`workings reward`: check rewards and judges before training on them."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import OverridesArgument, RecipeArgument, Verb
from workings.cli.output import answer
from workings.record.progress import slow_operation

reward_app = typer.Typer(help="Check rewards and judges before training on them.", no_args_is_help=True,
                         rich_markup_mode=None)


@reward_app.command("check", cls=Verb)
def check_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    prompts: Annotated[int, typer.Option(min=1, help="Number of prompts to try.")] = 8,
    no_model: Annotated[bool, typer.Option(
        "--no-model", help="Sample nothing: compare with the correct answer alone; needs no engine.")] = False,
) -> None:
    """What do a recipe's rewards pay for?

    Rewards probes (nothing, the prompt copied, a wrong answer after correct steps, …) and the model's own completions.
    Exit code 1 if a probe earns what it should not, or if a reward differs when computed twice.
    """
    from workings.runs.reward_check import check_rewards

    with slow_operation("trying the rewards"):
        report = check_rewards(recipe, overrides or (), prompts=prompts, model=not no_model)
    answer(report.to_json(), report.text(), bool(report.refusals))


@reward_app.command("judge", cls=Verb)
def judge_command(
    url: Annotated[str, typer.Option(help="Endpoint of OpenAI's chat completions API, without "
                                     "/chat/completions; its key goes in WORKINGS_JUDGE_KEY.")],
    model: Annotated[str, typer.Option(help="The model's name at the endpoint.")],
    items: Annotated[Path, typer.Option(help="At least 200 JSON lines: prompt, expected_answer, completion, "
                                        "right (true or false).")],
    out: Annotated[Path, typer.Option(help="The judge's file to write, for --scorer judge:FILE.")],
    max_tokens: Annotated[int, typer.Option(
        min=1, help="Longest reply in tokens; more for a model that thinks first.")] = 64,
) -> None:
    """Check a language model as the judge: agreement with labels, and resistance to persuasion.

    Writes the judge's file; exit code 1 if it did not pass.
    """
    from workings.runs.judge_check import check_judge, check_text

    judge = check_judge(url, model, items, out, max_tokens=max_tokens)
    answer(judge.recorded() | {"out": str(out)}, check_text(judge, out), not judge.passed)
