"""`workings train`: run a recipe and seal the record."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import OverridesArgument, RecipeArgument
from workings.cli.output import answer, as_typed, say
from workings.errors import DoesNotFit, Interrupted, RequestError
from workings.record.layout import SEAL, partial_path


def train_command(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option(
        help="Run directory to make; by default runs/NAME, NAME as in the recipe, or the next free number.")] = None,
    resume: Annotated[bool, typer.Option(
        "--resume", help="Resume a killed, interrupted or failed run, with its own overrides if none are "
        "given.")] = False,
    auto_resume: Annotated[bool, typer.Option(
        "--auto-resume", help="Start, resume, finish the evaluation, or do nothing if all is done: for launchers "
                              "that repeat a command. Needs --out.")] = False,
    smoke: Annotated[bool, typer.Option(
        "--smoke", help="Run all stages with a tiny model of the same architecture.")] = False,
    smoke_steps: Annotated[int | None, typer.Option(
        min=1, help="Steps of --smoke (implies it); 2 if not given.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if the plan says that it does not fit.")] = False,
    track: Annotated[list[str] | None, typer.Option(
        help="Report each step to a tracker: tensorboard, wandb, trackio or mlflow; can be repeated.")] = None,
) -> None:
    """Run a recipe: check, plan, train, evaluate, seal."""
    from workings.config.load import load_recipe
    from workings.reports.trackers import RunListeners
    from workings.runs.create_or_resume import load_to_resume, run_directory, what_is_left
    from workings.runs.smoke import STEPS
    from workings.runs.train_and_evaluate import train_and_evaluate

    listeners = RunListeners(track or (), say)
    smoke_steps = smoke_steps or (STEPS if smoke else 0)
    if resume and out is not None:
        loaded = load_to_resume(recipe, overrides or (), out, say)
    else:
        loaded = load_recipe(recipe, overrides or ())
    if auto_resume:
        if out is None:
            raise RequestError("--auto-resume needs --out", "the run to start or to resume", "--out runs/my-run")
        left = what_is_left(out)
        if left == "nothing":
            answer({"status": "complete", "run": str(out)}, f"{out} is complete and evaluated: nothing is left to do")
            return
        resume = left == "resume"
    name = f"{loaded.recipe.name}-smoke" if smoke_steps else loaded.recipe.name
    run_path = out or run_directory(name, resume=resume)
    try:
        result = train_and_evaluate(loaded, run_path, resume=resume, smoke=smoke_steps, force=force,
                                    listeners=listeners)
    except KeyboardInterrupt as stop:
        raise Interrupted(cut_short_message(run_path, str(stop) or "Ctrl-C")) from None
    except DoesNotFit as refusal:  # the plan that refuses the run is the command's answer
        say(str(refusal))
        answer(refusal.answer, "", refusal.exit_code)
        return
    training = result.training
    # A smoke run tests the stages: its tiny random model need not learn.
    failed = training.status == "failed" or (training.learned_nothing and not smoke_steps)
    code = Interrupted.exit_code if training.status == "interrupted" else int(bool(failed))
    if training.process != 0:  # the exit code is the same in all processes, and process 0 prints the result
        raise typer.Exit(code)
    answer(result.to_json(), as_typed(result.sentence(resume_command=_resume_command(run_path))), code)


def cut_short_message(run_path: Path, what: str) -> str:
    """The state of a run that was stopped abruptly, and the command that resumes it."""
    from workings.record.reader import RunRecord

    resume = _resume_command(run_path)
    if partial_path(run_path).is_dir():
        return f"stopped by {what}: the last checkpoint is kept; to resume: {resume}"
    if not (run_path / SEAL).is_file():
        return f"stopped by {what}: nothing was started; run the same command to start again"
    if RunRecord.open(run_path).status != "complete":
        return f"stopped by {what}: what was trained is sealed in {run_path}; to resume: {resume}"
    return (f"stopped by {what} after training, which is complete and sealed in {run_path}; to finish the evaluations: "
            f"{resume}")


def _resume_command(run_path: Path) -> str:
    """The typed command, with ``--resume`` and ``--out`` added where they are missing."""
    words = ["workings", *sys.argv[1:]]
    if "--resume" not in words and "--auto-resume" not in words:
        words.append("--resume")
    if not any(word.startswith("--out") for word in words):
        words += ["--out", str(run_path)]
    return shlex.join(words)
