"""`workings eval`: ask a model the items, or score completions from elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.opening import (
    MODEL_HELP,
    DeviceOption,
    EngineOption,
    MaxNewTokensOption,
    PrecisionOption,
    RevisionOption,
    TemplateOption,
    TokenizerOption,
    as_recorded,
    misplaced,
    typed,
    weights_request,
)
from workings.cli.output import JsonFlag, answer, say


def eval_command(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    items: Annotated[Path | None, typer.Option(
        "--items", help="Items: JSON lines with id, prompt, expected_answer; or traces, or a shipped set.")] = None,
    predictions: Annotated[Path | None, typer.Option(
        "--predictions", help="Completions from elsewhere: JSON lines with id and completion.")] = None,
    harness_log: Annotated[Path | None, typer.Option(
        "--harness-log", help="A sample log of lm-evaluation-harness, imported with its own scores.")] = None,
    harness_filter: Annotated[str, typer.Option("--harness-filter", help="Which of its filters counts.")] = "",
    harness_metric: Annotated[str, typer.Option("--harness-metric", help="Which of its metrics is the score.")] = "",
    out: Annotated[Path | None, typer.Option(
        "--out", help="Directory to make for the sealed evaluation.",
        show_default="of a run, eval/NAME in it, by the name of the items")] = None,
    device: DeviceOption = None,
    template: TemplateOption = None,
    engine: EngineOption = None,
    precision: PrecisionOption = None,
    tokenizer: TokenizerOption = None,
    revision: RevisionOption = None,
    max_new_tokens: MaxNewTokensOption = None,
    batch_size: Annotated[int | None, typer.Option(
        "--batch-size", help="Prompts that are answered at a time; by default as in the run's recipe.")] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="0: greedy; above: sampled.")] = 0.0,
    samples: Annotated[int, typer.Option("--samples", help="Completions per item (asks for a temperature).")] = 1,
    aggregate: Annotated[str, typer.Option("--aggregate", help="Over samples: mean, majority, pass, pass@K.")] = "mean",
    seed: Annotated[int, typer.Option("--seed", help="Decides what is sampled.")] = 0,
    scorer: Annotated[str | None, typer.Option(
        "--scorer", help="answer, exact, math (formulas, by math-verify), or FILE.py:FUNCTION; by default that of the "
        "run's recipe, else answer.")] = None,
    rules: Annotated[str, typer.Option("--rules", help="Extraction rules in order, with commas; empty: all.")] = "",
    form: Annotated[str | None, typer.Option(
        "--form", help="Form to check: tags, think, channel (asks weights of Gemma 4 to think), hashes, answer_only, "
        "any; by default the trained one.")] = None,
    second_opinion: Annotated[bool, typer.Option("--second-opinion", help="Let math-verify judge as well.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score a run, other weights, or text from elsewhere, on items.

    Generates, extracts, scores, seals. Weights that are no run of ours need --template. With --predictions no model is
    needed.
    """
    from workings.errors import Interrupted
    from workings.evaluation.run import evaluate_predictions
    from workings.evaluation.scorecard import scorecard_text
    from workings.evaluation.settings import EvaluationSettings
    from workings.evaluation.unit import EvaluationRecord
    from workings.runs.datasets import read_questions

    _check_source(model, predictions, harness_log, items)
    opening = typed(template=template, engine=engine, precision=precision, tokenizer=tokenizer, revision=revision)
    if model is None and opening:
        raise misplaced(opening, "without a model")
    recorded = {} if model is None else as_recorded(
        model, opening, f"workings eval {model} --template tokenizer --items ITEMS.jsonl --out DIR")
    out = _place_in_run(model, items) if out is None else out
    settings = EvaluationSettings(
        temperature=temperature, samples=samples, aggregate=aggregate, seed=seed,
        rules=tuple(rule for rule in rules.split(",") if rule),
        second_opinion="math_verify" if second_opinion else "none",
        # What was typed goes over what the run recorded, which goes over this package's defaults.
        **recorded | typed(max_new_tokens=max_new_tokens, batch_size=batch_size, form=form, scorer=scorer))
    warnings: list[str] = []

    def tell_learned(ids: list[str]) -> None:
        warnings.append(f"{len(ids):,} of the items are questions that {model} was trained on, such as {ids[0]}: "
                        "they show what it has learned by heart")
        say(f"leak       {warnings[0]}")

    try:
        if harness_log is not None:
            from workings.evaluation.harness import import_harness_log

            scorecard = import_harness_log(harness_log, out, metric=harness_metric, filter_name=harness_filter)
        elif predictions is not None and items is not None:
            scorecard = evaluate_predictions(predictions, read_questions(items), out, settings=settings)
        elif opening:
            from workings.runs.evaluate import evaluate_weights

            scorecard = evaluate_weights(str(model), Path(str(items)), out, settings=settings,
                                         request=weights_request(opening, device, settings.form))
        else:
            from workings.runs.evaluate import evaluate_run
            from workings.runs.open_model import AS_RECORDED

            scorecard = evaluate_run(Path(str(model)), Path(str(items)), out, settings=settings,
                                     device=device or AS_RECORDED, learned=tell_learned)
    # What was scored lies in the unfinished folder already, so stopping loses only what was in work.
    except KeyboardInterrupt:
        from workings.record.layout import partial_unit_path

        kept = partial_unit_path(out)
        raise Interrupted(f"stopped; what was scored is kept in {kept}: the same command goes on") from None
    overall = scorecard.overall.to_json()
    values = {"items": overall["n"], "accuracy": overall["mean"], "errors": overall["errors"], "out": str(out)}
    # Where no interval is possible, its ends are objects with the reason; the answer leaves such keys out.
    values |= {name: overall[name] for name in ("ci_low", "ci_high") if isinstance(overall[name], float | int)}
    warning = "; ".join(filter(None, (*warnings, EvaluationRecord(out).warning)))
    answer(values | ({"warning": warning} if warning else {}), as_json=as_json,
           text=scorecard_text(scorecard, out, warning))


def _place_in_run(model: str | None, items: Path | None) -> Path:
    """Where an evaluation goes that nobody named: into the run."""
    from workings.errors import RequestError
    from workings.record.layout import MANIFEST
    from workings.runs.evaluate import free_unit

    if model is None or items is None or not Path(model, MANIFEST).is_file():
        raise RequestError("no --out", "a directory to make for the evaluation", "--out DIR")
    return free_unit(Path(model), items.stem)


def _check_source(model: str | None, predictions: Path | None, harness_log: Path | None, items: Path | None) -> None:
    """Exactly one thing to score; items unless the log brings them."""
    from workings.errors import RequestError

    given = [name for name, value in (("MODEL", model), ("--predictions", predictions), ("--harness-log", harness_log))
             if value is not None]
    example = "workings eval RUN --items ITEMS.jsonl --out DIR"
    if len(given) != 1:
        raise RequestError(" and ".join(given) or "nothing to score", "one of MODEL, --predictions and --harness-log",
                           example)
    # A harness log holds its own items, and everything else needs some.
    if (items is None) != (harness_log is not None):
        raise RequestError("--items with --harness-log" if items else "no --items",
                           "a harness log alone: it brings its items" if items else "the items to score", example)
