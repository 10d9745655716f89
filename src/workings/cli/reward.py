"""`workings reward`: check rewards and judges before training on them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workings.cli.options import OverridesArgument, RecipeArgument, Verb
from workings.cli.output import answer
from workings.record.number_text import percent, table_lines
from workings.record.progress import slow_operation

if TYPE_CHECKING:
    from workings.runs.reward_check import RewardCheck

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
    answer(report.to_json(), page(report), bool(report.refusals))


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


def page(check: "RewardCheck") -> str:
    """The check as text: a row for each probe and the model's samples, and the verdict."""
    values = check.to_json()
    samples, count = values.get("samples"), values["prompts"]
    rows = [["", "reward", "right", "beats", *check.rewards]]
    rows += [_row(name, probe, percent(probe["share_beaten"], 0)) for name, probe in values["probes"].items()]
    rows.append(_row("(the correct answer)", values["right_answer"], ""))
    lines = [f"{count} prompts; beats: share of them where the probe earns more than the correct answer"]
    if samples:
        rows.append(_row("(the model's samples)", samples, ""))
        lines = [f"{count} prompts; beats: share of them where the probe earns more than the median of the model's "
                 f"{samples['count'] // count} samples, which is {samples['median']:.2f} on average",
                 f"groups without spread {percent(samples['groups_without_spread'], 0)}; "
                 f"cut off {percent(samples['truncated'], 0)}; "
                 f"{samples['tokens']:.0f} of {samples['max_new_tokens']} tokens on average"]
    lines += [f"warning: {text}" for text in values["warnings"]]
    lines += [f"refused: {text}" for text in values["refusals"]] or ["no probe earns what it should not"]
    return "\n".join([*table_lines(rows), "", *lines])


def _row(name: str, earned: Mapping[str, Any], beats: str) -> list[str]:
    return [name, f"{earned['reward']:.2f}", percent(earned["right"], 0), beats,
            *(f"{x:.2f}" for x in earned["rewards"].values())]
