"""`workings eval`: let a model answer items, or score completions from elsewhere."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from workings.cli import options
from workings.cli.options import as_recorded, given_options, refuse_unread, weights_request
from workings.cli.output import answer, say
from workings.engines.hardware_probe import launched
from workings.errors import Interrupted, RequestError
from workings.record.layout import MANIFEST, partial_unit_path

if TYPE_CHECKING:
    from workings.evaluation.scorecard import Scorecard


def eval_command(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=options.MODEL_HELP)] = None,
    items: Annotated[Path | None, typer.Option(
        help="Items: JSON lines with id, prompt, expected_answer; or traces, or a shipped set.")] = None,
    predictions: Annotated[Path | None, typer.Option(
        help="Existing completions to score: JSON lines with id and completion.")] = None,
    task: Annotated[str | None, typer.Option(
        help="A task of lm-evaluation-harness (its name, or FILE.yaml), or of inspect_ai "
        "(inspect:FILE.py@NAME, inspect:inspect_evals/NAME), in place of items.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of items of the task, from its beginning.")] = None,
    few_shot: Annotated[int | None, typer.Option(
        min=0, help="Worked examples before each question; by default as the task says.")] = None,
    harness_filter: Annotated[str, typer.Option(help="The filter of a task to score; by default its first.")] = "",
    harness_metric: Annotated[str, typer.Option(help="The metric of a task to use as the score.")] = "",
    out: Annotated[Path | None, typer.Option(
        help="Directory to make for the sealed evaluation.",
        show_default="of a run, eval/NAME in it, by the name of the items")] = None,
    device: options.DeviceOption = None,
    template: options.TemplateOption = None,
    engine: options.EngineOption = None,
    precision: options.PrecisionOption = None,
    tokenizer: options.TokenizerOption = None,
    revision: options.RevisionOption = None,
    max_new_tokens: options.MaxNewTokensOption = None,
    batch_size: Annotated[int | None, typer.Option(
        help="Prompts per batch; by default as in the run's recipe.")] = None,
    temperature: Annotated[float, typer.Option(help="0: greedy; above: sampled.")] = 0.0,
    samples: Annotated[int, typer.Option(help="Completions per item (needs a temperature).")] = 1,
    aggregate: Annotated[str, typer.Option(help="How to combine samples: mean, majority, pass or pass@K.")] = "mean",
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    scorer: Annotated[str | None, typer.Option(
        help="answer, exact, math (formulas, by math-verify), judge:JUDGE.json (see judge check) "
        "or FILE.py:FUNCTION; by default that of the run's recipe, else answer.")] = None,
    rules: Annotated[str, typer.Option(help="Extraction rules in order, separated by commas; empty: all.")] = "",
    form: Annotated[str | None, typer.Option(
        help="Answer form to check: tags, think, channel (asks Gemma 4 to think), hashes, answer_only, "
        "any; by default as trained.")] = None,
) -> None:
    """Score a run, other weights, or existing completions on items.

    Generates, extracts, scores, seals. Weights that are not a sealed run need --template. --predictions needs no
    model. With --task another program asks and scores.
    """
    from workings.evaluation.harness import TaskRequest
    from workings.evaluation.run import evaluate_predictions
    from workings.evaluation.settings import EvaluationSettings
    from workings.inputs.datasets import read_prompts
    from workings.runs.evaluate import evaluate_run, evaluate_task
    from workings.runs.open_model import ALONE, AS_RECORDED, follow_run, processes_of

    _check_source(model, predictions, items, task)
    loading_options = given_options(
        template=template, engine=engine, precision=precision, tokenizer=tokenizer, revision=revision)
    if model is None:
        refuse_unread("without a model", "these with MODEL, which answers", "device", "temperature", "seed",
                      "batch_size", "max_new_tokens", *loading_options)
    recorded: dict[str, Any] = {}
    if model is not None:
        example = f"workings eval {quote(model)} --template tokenizer --items ITEMS.jsonl --out DIR"
        recorded = as_recorded(model, loading_options, example)
    out = out or _unit_in_run(model, items, task)
    settings = EvaluationSettings(
        temperature=temperature, samples=samples, aggregate=aggregate, seed=seed,
        rules=tuple(rule for rule in rules.split(",") if rule),
        # Precedence: command line, then the run's record, then defaults.
        **recorded | given_options(max_new_tokens=max_new_tokens, batch_size=batch_size, form=form, scorer=scorer))
    is_sealed_run = model is not None and not loading_options
    if launched() and not is_sealed_run:
        raise RequestError(f"workings eval cannot run in several processes ({launched()}) without a sealed run",
                           "a sealed run, whose model several processes can hold together",
                           "the same without the launcher")
    group = processes_of(Path(model)) if model is not None and is_sealed_run else ALONE
    leaks: list[str] = []

    def warn(ids: list[str]) -> None:
        leaks.append(f"{len(ids):,} items are questions that {model} was trained on, such as {ids[0]}: "
                     "they measure memorization")
        say(f"leak       {leaks[0]}")

    # `_check_source` has refused a request without these.
    file, completions = cast(Path, items), cast(Path, predictions)
    opening: dict[str, Any] = {"weights": weights_request(loading_options, device, settings.form),
                               "device": device or AS_RECORDED, "on_trained_items": warn, "group": group}
    try:
        with group:
            if model is None:
                scorecard = evaluate_predictions(completions, read_prompts(file), out, settings=settings)
            elif not group.is_coordinator:
                follow_run(Path(model), device or AS_RECORDED, group)
                return
            elif task is None:
                scorecard = evaluate_run(model, file, out, settings=settings, **opening)
            else:
                request = TaskRequest(
                    name=task, limit=limit, few_shot=few_shot, metric=harness_metric, filter=harness_filter,
                    max_new_tokens=max_new_tokens, batch_size=settings.batch_size)
                scorecard = evaluate_task(model, request, out, **opening)
    except KeyboardInterrupt:
        kept = f"what was scored is kept in {partial_unit_path(out)}; to resume, run the same command"
        if task is not None:
            kept = "nothing was kept, because a task is scored at its end"
        raise Interrupted(f"stopped; {kept}") from None
    _answer(scorecard, out, leaks)


def _answer(scorecard: "Scorecard", out: Path, leaks: list[str]) -> None:
    """Print the scorecard of the evaluation in ``out``, and its warnings; ``leaks`` are those about trained items."""
    from workings.evaluation.scorecard import scorecard_text
    from workings.evaluation.statistics import bounds
    from workings.evaluation.unit import EvaluationRecord
    from workings.scoring.model_judge import judge_text

    record, overall = EvaluationRecord(out), scorecard.overall
    values: dict[str, Any] = {
        "items": overall.n, "accuracy": overall.mean, "errors": overall.errors, "out": str(out),
        **bounds(overall.interval, "ci"), **asdict(record.answer_counts)}
    warning = "; ".join(filter(None, (*leaks, record.warning)))
    text = scorecard_text(scorecard, out, record.answer_counts.text(), warning, judge_text(record.config))
    names = record.summary.get("names")
    if names and record.config["scorer"]["name"] == "answer":
        values["names"] = names
        text += f"\n{names['items']:,} of {overall.n:,} items {names['why']}"
    if warning:
        values["warning"] = warning
    answer(values, text)


def _unit_in_run(model: str | None, items: Path | None, task: str | None) -> Path:
    """The default of --out: in the run, named after the items or the task."""
    from workings.runs.evaluate import free_unit

    if model is None or not Path(model, MANIFEST).is_file():
        raise RequestError("--out is missing", "a directory to make for the evaluation", "--out DIR")
    # `sums` for the tasks `tasks/sums.yaml` and `inspect:tasks.py@sums`.
    named = Path(items or str(task).rpartition("@")[2].rpartition(":")[2])
    return free_unit(Path(model), named.stem)


def _check_source(model: str | None, predictions: Path | None, items: Path | None, task: str | None) -> None:
    """Raise `RequestError` unless there is either a model or predictions, and either items or, for a model, a task."""
    example = f"workings eval {quote(model or 'RUN')} --items ITEMS.jsonl --out DIR"
    if model is not None and predictions is not None:
        raise RequestError("MODEL and --predictions cannot be combined", "one of the two", example)
    if model is None and predictions is None:
        raise RequestError("there is nothing to score", "MODEL or --predictions", example)
    if task is None:
        if items is None:
            raise RequestError("--items is missing", "the items to score", example)
        refuse_unread("without --task", "these with a task", "limit", "few_shot", "harness_filter", "harness_metric")
        return
    if model is None or items is not None:
        raise RequestError("--task and --items cannot be combined" if model else "--task needs a model",
                           "a model and a task, which brings its items", "workings eval RUN --task TASK")
    refuse_unread("with --task, which brings its own scoring", "these with --items, or --predictions", "scorer",
                  "rules", "form")
    refuse_unread("with --task, which says how it is answered", "these with --items", "temperature", "samples",
                  "aggregate", "seed")
