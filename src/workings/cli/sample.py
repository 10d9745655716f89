"""`workings data sample` and `select`: sample completions of prompts, and keep those that a model should learn."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli import options
from workings.cli.options import as_recorded, given_options, refuse_unread, weights_request
from workings.cli.output import answer, say
from workings.errors import Interrupted, RequestError
from workings.record.layout import KEPT, PAIRS, partial_unit_path

if TYPE_CHECKING:
    from workings.samples.selection import PairRule
    from workings.samples.unit import SampleUnit

KeepOption = Annotated[str, typer.Option(
    "--keep", help="correct: correct answers; best: the highest score of each prompt, above 0; all.")]
ValidStepsOption = Annotated[bool, typer.Option("--valid-steps", help="Leave out samples with a wrong equation.")]
MostOption = Annotated[int, typer.Option("--most", help="Most samples kept per prompt; 0: all.")]
PairsOption = Annotated[str | None, typer.Option(
    "--pairs", help="Make preference pairs too: best-worst or right-wrong.")]
MostPairsOption = Annotated[int, typer.Option("--most-pairs", help="With --pairs: most pairs per prompt.")]
PromptsOutOption = Annotated[Path | None, typer.Option(
    "--prompts-out", help="File for the prompts that were solved sometimes: those always or never "
                          "solved teach nothing when learning from rewards.")]


def sample_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=options.MODEL_HELP)],
    prompts: Annotated[str, typer.Option(
        help="Items, or traces for their questions and answers: a file, or a shipped set.")],
    out: Annotated[Path, typer.Option(help="Directory to make for the sealed samples.")],
    samples: Annotated[int, typer.Option(help="Completions per prompt.")] = 8,
    temperature: Annotated[float, typer.Option(help="0: greedy; above: sampled.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    keep: KeepOption = "correct",
    valid_steps: ValidStepsOption = False,
    most_per_prompt: MostOption = 0,
    pairs: PairsOption = None,
    most_pairs: MostPairsOption = 1,
    prompts_out: PromptsOutOption = None,
    device: options.DeviceOption = None,
    template: options.TemplateOption = None,
    engine: options.EngineOption = None,
    precision: options.PrecisionOption = None,
    tokenizer: options.TokenizerOption = None,
    revision: options.RevisionOption = None,
    max_new_tokens: options.MaxNewTokensOption = None,
    batch_size: Annotated[int | None, typer.Option(
        help="Completions per batch; by default as many as fit the device.")] = None,
    scorer: Annotated[str, typer.Option(help="A registered scorer, or FILE.py:FUNCTION.")] = "answer",
    form: Annotated[str | None, typer.Option(
        help="Answer form of kept samples: tags, think, channel (asks Gemma 4 to think), hashes, "
        "answer_only; by default as trained.")] = None,
) -> None:
    """Sample completions of prompts, score them, and keep some as traces to learn from.

    Every sample is recorded with its seed, end and score. The same command resumes after a stop.
    """
    from workings.evaluation.settings import EvaluationSettings
    from workings.inputs.datasets import read_prompts
    from workings.runs.sample import sample_run
    from workings.samples.draw import SampleRequest
    from workings.samples.selection import Selection

    loading_options = given_options(
        template=template, engine=engine, precision=precision, tokenizer=tokenizer, revision=revision)
    example = f"workings data sample {quote(model)} --template tokenizer --form tags --prompts FILE --out DIR"
    recorded = as_recorded(model, loading_options, example, decoding=("max_new_tokens",))
    given = given_options(max_new_tokens=max_new_tokens, batch_size=batch_size, form=form)
    settings = EvaluationSettings(
        temperature=temperature, samples=samples, seed=seed, scorer=scorer,
        # Precedence: command line, then the run's record, then defaults.
        **recorded | given)
    request = SampleRequest(
        settings=settings, pairs=_pair_rule(pairs, most_pairs),
        selection=Selection(keep=keep, valid_steps=valid_steps, most_per_prompt=most_per_prompt))
    _check_prompts_out(prompts_out)
    items = read_prompts(prompts)
    weights = weights_request(loading_options, device, settings.form)
    try:
        unit = sample_run(model, items, out, request=request, weights=weights, **given_options(device=device),
                          say_planned_batch=say if batch_size is None else None)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was drawn is kept in {partial_unit_path(out)}: the same command goes "
                          "on") from None
    _write_prompts_and_print(unit, request.pairs is not None, prompts_out)


def _pair_rule(pairs: str | None, most_pairs: int) -> "PairRule | None":
    from workings.samples.selection import PairRule

    if pairs is None:
        refuse_unread("without --pairs", "--pairs best-worst or right-wrong", "most_pairs")
        return None
    return PairRule(rule=pairs, most_per_prompt=most_pairs)


def _check_prompts_out(prompts_out: Path | None) -> None:
    """Raise `RequestError` if the file cannot be made: before sampling, which may take hours."""
    if prompts_out is None:
        return
    expected, example = "a file that does not exist yet, in a folder that does", "--prompts-out another name"
    if prompts_out.exists():
        raise RequestError(f"--prompts-out {prompts_out} exists", expected, example)
    if not prompts_out.absolute().parent.is_dir():
        raise RequestError(f"--prompts-out {prompts_out}: there is no folder {prompts_out.parent}", expected, example)


def _write_prompts_and_print(unit: "SampleUnit", with_pairs: bool, prompts_out: Path | None) -> None:
    """Write the prompts that were solved sometimes to ``prompts_out``, and print what was kept."""
    if prompts_out is not None:
        from workings.data.row_fields import lines_bytes
        from workings.record import atomic
        atomic.write_bytes(prompts_out, lines_bytes(item.to_json() for item in unit.sometimes_solved()))
    counts = unit.counts
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.left_out.items()))
    lines = [f"{counts.prompts} prompts: {counts.never} never solved, {counts.sometimes} sometimes, "
             f"{counts.always} always",
             f"{counts.kept} of {counts.samples} samples kept, of {counts.with_kept} prompts: {unit.path / KEPT}"]
    if left_out:
        lines.append(f"left out: {left_out}")
    if prompts_out:
        lines.append(f"{counts.sometimes} prompts that were solved sometimes: {prompts_out}")
    if with_pairs:
        lines.append(f"{len(unit.pairs)} preference pairs: {unit.path / PAIRS}")
    if not counts.kept:
        lines.append("nothing was kept: these prompts are too hard for this model, or it answers in another form")
    answer({"out": str(unit.path), "root": unit.root, **asdict(counts), "pairs": len(unit.pairs)},
           "\n".join([*lines, f"to verify: workings verify {quote(str(unit.path))}"]))


def select_command(
    samples: Annotated[Path, typer.Argument(help="A sealed directory of samples.")],
    out: Annotated[Path, typer.Option(help="Directory to make for the new selection.")],
    keep: KeepOption = "correct",
    valid_steps: ValidStepsOption = False,
    most_per_prompt: MostOption = 0,
    pairs: PairsOption = None,
    most_pairs: MostPairsOption = 1,
    prompts_out: PromptsOutOption = None,
) -> None:
    """Select from existing samples by other rules; nothing is sampled again.

    Seals the same completions and scores as a new unit, with the samples that these rules keep.
    """
    from workings.samples.draw import reselect
    from workings.samples.selection import Selection

    _check_prompts_out(prompts_out)
    unit = reselect(
        samples, out, Selection(keep=keep, valid_steps=valid_steps, most_per_prompt=most_per_prompt),
        _pair_rule(pairs, most_pairs))
    _write_prompts_and_print(unit, pairs is not None, prompts_out)
