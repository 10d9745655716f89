"""`workings eval`: ask a model the items, or score completions from elsewhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from workings.cli.output import JsonFlag, answer, say


def eval_command(
    out: Annotated[Path, typer.Option("--out", help="Directory to make for the sealed evaluation.")],
    model: Annotated[Path | None, typer.Argument(metavar="RUN", help="A sealed run directory.")] = None,
    items: Annotated[Path | None, typer.Option(
        "--items", help="Items: JSON lines with id, prompt, expected_answer.")] = None,
    predictions: Annotated[Path | None, typer.Option(
        "--predictions", help="Completions from elsewhere: JSON lines with id and completion.")] = None,
    harness_log: Annotated[Path | None, typer.Option(
        "--harness-log", help="A sample log of lm-evaluation-harness, imported with its own scores.")] = None,
    harness_filter: Annotated[str, typer.Option("--harness-filter", help="Which of its filters counts.")] = "",
    harness_metric: Annotated[str, typer.Option("--harness-metric", help="Which of its metrics is the score.")] = "",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, gpu or tpu.")] = "as recorded",
    max_new_tokens: Annotated[int | None, typer.Option(
        "--max-new-tokens", help="Longest completion, in tokens; by default as in the run's recipe.")] = None,
    batch_size: Annotated[int | None, typer.Option(
        "--batch-size", help="Prompts that are answered at a time; by default as in the run's recipe.")] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="0: greedy; above: sampled.")] = 0.0,
    samples: Annotated[int, typer.Option("--samples", help="Completions per item (asks for a temperature).")] = 1,
    aggregate: Annotated[str, typer.Option("--aggregate", help="Over samples: mean, majority, pass, pass@K.")] = "mean",
    seed: Annotated[int, typer.Option("--seed", help="Decides what is sampled.")] = 0,
    scorer: Annotated[str, typer.Option("--scorer", help="A registered scorer, or FILE.py:FUNCTION.")] = "answer",
    rules: Annotated[str, typer.Option("--rules", help="Extraction rules in order, with commas; empty: all.")] = "",
    form: Annotated[str | None, typer.Option(
        "--form", help="Form to check: tags, think, hashes, answer_only, any; by default the trained one.")] = None,
    second_opinion: Annotated[bool, typer.Option("--second-opinion", help="Let math-verify judge as well.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score a run, or text from elsewhere, on items.

    Generates, extracts, scores, seals. With --predictions no model is needed.
    """
    from workings.errors import Interrupted
    from workings.evaluation.items import read_items
    from workings.evaluation.run import evaluate_predictions
    from workings.evaluation.settings import EvaluationSettings
    from workings.evaluation.words import scorecard_text

    _check_source(model, predictions, harness_log, items)
    given = {"max_new_tokens": max_new_tokens, "batch_size": batch_size, "form": form}
    settings = EvaluationSettings(
        temperature=temperature, samples=samples, aggregate=aggregate, seed=seed, scorer=scorer,
        rules=tuple(rule for rule in rules.split(",") if rule),
        second_opinion="math_verify" if second_opinion else "none",
        **_as_recorded(model) | {name: value for name, value in given.items() if value is not None})

    def progress(done: int, total: int) -> None:
        say(f"{done} of {total} items")

    try:
        if harness_log is not None:
            from workings.evaluation.harness import import_harness_log

            scorecard = import_harness_log(harness_log, out, metric=harness_metric, filter_name=harness_filter)
        elif predictions is not None and items is not None:
            scorecard = evaluate_predictions(predictions, read_items(items), out, settings=settings, progress=progress)
        else:
            from workings.runs.evaluate import evaluate_run

            scorecard = evaluate_run(Path(str(model)), Path(str(items)), out, settings=settings, device=device,
                                     progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was scored is kept in {out}.partial: the same command goes on") from None
    overall = scorecard.overall.to_json()
    values = {"items": overall["n"], "accuracy": overall["mean"], "errors": overall["errors"], "out": str(out)}
    values |= {name: overall[name] for name in ("ci_low", "ci_high") if isinstance(overall[name], float | int)}
    answer(values, as_json=as_json, text=scorecard_text(scorecard, out))


def _as_recorded(model: Path | None) -> dict[str, Any]:
    """What the run's own evaluation used: without a reason to differ, the two stay comparable."""
    if model is None:
        return {}
    from workings.record.reader import Run

    recipe = Run.open(model).manifest.config_snapshot
    asked = {name: recipe.get("evaluation", {}).get(name) for name in ("max_new_tokens", "batch_size")}
    asked["form"] = recipe.get("data", {}).get("reasoning")
    return {name: value for name, value in asked.items() if value is not None}


def _check_source(model: Path | None, predictions: Path | None, harness_log: Path | None, items: Path | None) -> None:
    """Exactly one thing to score; items unless the log brings them."""
    from workings.errors import RequestError

    given = [name for name, value in (("RUN", model), ("--predictions", predictions), ("--harness-log", harness_log))
             if value is not None]
    example = "workings eval RUN --items ITEMS.jsonl --out DIR"
    if len(given) != 1:
        raise RequestError(" and ".join(given) or "nothing to score", "one of RUN, --predictions and --harness-log",
                           example)
    if (items is None) != (harness_log is not None):
        raise RequestError("--items with --harness-log" if items else "no --items",
                           "a harness log alone: it brings its items" if items else "the items to score", example)
