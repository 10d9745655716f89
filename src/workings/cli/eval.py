"""`workings eval`: let a model answer items, or score completions from elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workings.cli.options import (
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
    refuse_unread,
    typed,
    weights_request,
)
from workings.cli.output import JsonFlag, answer, say
from workings.errors import Interrupted, RequestError
from workings.record.layout import MANIFEST, partial_unit_path

if TYPE_CHECKING:
    from workings.evaluation.scorecard import Scorecard
    from workings.evaluation.settings import EvaluationSettings


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
    samples: Annotated[int, typer.Option("--samples", help="Completions per item (needs a temperature).")] = 1,
    aggregate: Annotated[str, typer.Option("--aggregate", help="Over samples: mean, majority, pass, pass@K.")] = "mean",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sampling.")] = 0,
    scorer: Annotated[str | None, typer.Option(
        "--scorer", help="answer, exact, math (formulas, by math-verify), judge:JUDGE.json (see judge check) "
        "or FILE.py:FUNCTION; by default that of the run's recipe, else answer.")] = None,
    rules: Annotated[str, typer.Option("--rules", help="Extraction rules in order, with commas; empty: all.")] = "",
    form: Annotated[str | None, typer.Option(
        "--form", help="Form to check: tags, think, channel (asks weights of Gemma 4 to think), hashes, answer_only, "
        "any; by default the trained one.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a run, other weights, or text from elsewhere, on items.

    Generates, extracts, scores, seals. Weights that are not a sealed run need --template. With --predictions no model
    is needed.
    """
    from workings.evaluation.settings import EvaluationSettings

    _check_source(model, predictions, harness_log, items)
    if harness_log is None:
        refuse_unread("without --harness-log", "these with the log of a harness", harness_filter=bool(harness_filter),
                      harness_metric=bool(harness_metric))
    else:
        refuse_unread("with --harness-log, which is scored already", "these with MODEL or --predictions",
                      scorer=scorer is not None, rules=bool(rules), form=form is not None)
    if model is None:
        refuse_unread("without a model", "these with MODEL, which answers", device=device is not None,
                      temperature=bool(temperature), seed=bool(seed), batch_size=batch_size is not None,
                      max_new_tokens=max_new_tokens is not None)
    # Options that only plain weights take; with a run they are an error and not ignored.
    opening = typed(template=template, engine=engine, precision=precision, tokenizer=tokenizer, revision=revision)
    if model is None and opening:
        raise misplaced(opening, "without a model")
    # Read before the directory is named, because it refuses what cannot be opened.
    recorded = {} if model is None else as_recorded(
        model, opening, f"workings eval {quote(model)} --template tokenizer --items ITEMS.jsonl --out DIR")
    out = _unit_in_run(model, items) if out is None else out
    settings = EvaluationSettings(
        temperature=temperature, samples=samples, aggregate=aggregate, seed=seed,
        rules=tuple(rule for rule in rules.split(",") if rule),
        # What was typed goes over what the run recorded, which goes over this package's defaults.
        **recorded | typed(max_new_tokens=max_new_tokens, batch_size=batch_size, form=form, scorer=scorer))
    source = _Source(model=model, items=items, predictions=predictions, harness_log=harness_log,
                     harness_filter=harness_filter, harness_metric=harness_metric, opening=opening, device=device)
    try:
        scorecard, leaks = source.evaluate(out, settings)
    # What was scored is in the unfinished folder already, so stopping loses only what was in work.
    except KeyboardInterrupt:
        partial = partial_unit_path(out)
        raise Interrupted(f"stopped; what was scored is kept in {partial}: the same command goes on") from None
    _answer(scorecard, out, leaks, as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Source of completions: a sealed run, other weights (with ``opening``), predictions, or a harness log."""

    model: str | None
    items: Path | None
    predictions: Path | None
    harness_log: Path | None
    harness_filter: str
    harness_metric: str
    opening: dict[str, Any]
    """Options that say how weights are opened; empty for a run."""
    device: str | None

    def evaluate(self, out: Path, settings: "EvaluationSettings") -> "tuple[Scorecard, list[str]]":
        """The scorecard, and warnings about items that the run was trained on, which are printed at once."""
        from workings.evaluation.run import evaluate_predictions
        from workings.inputs.datasets import read_questions

        if self.harness_log is not None:
            from workings.evaluation.harness import import_harness_log

            return import_harness_log(self.harness_log, out, metric=self.harness_metric,
                                      filter_name=self.harness_filter), []
        if self.predictions is not None and self.items is not None:
            return evaluate_predictions(self.predictions, read_questions(self.items), out, settings=settings), []
        if self.opening:
            from workings.runs.evaluate import evaluate_weights

            return evaluate_weights(str(self.model), Path(str(self.items)), out, settings=settings,
                                    request=weights_request(self.opening, self.device, settings.form)), []
        from workings.runs.evaluate import evaluate_run
        from workings.runs.open_model import AS_RECORDED

        # Filled by the callback while the evaluation runs: its answer has no place for warnings.
        leaks: list[str] = []

        def warn(ids: list[str]) -> None:
            leaks.append(f"{len(ids):,} of the items are questions that {self.model} was trained on, such as {ids[0]}: "
                         "they show what it has learned by heart")
            say(f"leak       {leaks[0]}")

        return evaluate_run(Path(str(self.model)), Path(str(self.items)), out, settings=settings,
                            device=self.device or AS_RECORDED, on_trained_items=warn), leaks


def _answer(scorecard: "Scorecard", out: Path, leaks: list[str], *, as_json: bool) -> None:
    """Print the scorecard of the evaluation in ``out``, and what speaks against it."""
    from workings.evaluation.scorecard import scorecard_text
    from workings.evaluation.unit import EvaluationRecord

    overall = scorecard.overall.to_json()
    from workings.scoring.model_judge import judge_text

    values = {"items": overall["n"], "accuracy": overall["mean"], "errors": overall["errors"], "out": str(out)}
    # Where no interval is possible, its ends are objects with the reason; the answer leaves such keys out.
    values |= {name: overall[name] for name in ("ci_low", "ci_high") if isinstance(overall[name], float | int)}
    record = EvaluationRecord(out)
    warning = "; ".join(filter(None, (*leaks, record.warning)))
    names = record.summary.get("names") if record.config["scorer"]["name"] == "answer" else None
    note = f"\n{names['items']:,} of {overall['n']:,} items {names['why']}" if names else ""
    facts = record.answer_counts.to_json() | ({"names": names} if names else {})
    answer(values | facts | ({"warning": warning} if warning else {}), as_json=as_json,
           text=scorecard_text(scorecard, out, record.answer_counts.text(), warning, judge_text(record.config)) + note)


def _unit_in_run(model: str | None, items: Path | None) -> Path:
    """Directory of an evaluation without --out: in the run, named after the items."""
    from workings.runs.evaluate import free_unit

    if model is None or items is None or not Path(model, MANIFEST).is_file():
        raise RequestError("no --out", "a directory to make for the evaluation", "--out DIR")
    return free_unit(Path(model), items.stem)


def _check_source(model: str | None, predictions: Path | None, harness_log: Path | None, items: Path | None) -> None:
    """Exactly one thing to score; items unless the log brings them."""
    sources = [name for name, value in (("MODEL", model), ("--predictions", predictions), ("--harness-log",
                                                                                           harness_log))
             if value is not None]
    example = "workings eval RUN --items ITEMS.jsonl --out DIR"
    if len(sources) != 1:
        raise RequestError(" and ".join(sources) or "nothing to score", "one of MODEL, --predictions and --harness-log",
                           example)
    # A harness log holds its own items, and everything else needs some.
    if (items is None) != (harness_log is not None):
        raise RequestError("--items with --harness-log" if items else "no --items",
                           "a harness log alone: it brings its items" if items else "the items to score", example)
