"""Arguments and options that several commands share, and the request to open a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workings.errors import RequestError
from workings.record.layout import SEAL

if TYPE_CHECKING:
    from workings.runs.open_model import WeightsRequest

RecipeArgument = Annotated[str, typer.Argument(help="A recipe file, or the name of a shipped recipe.")]
OverridesArgument = Annotated[list[str] | None, typer.Argument(
    metavar="[KEY=VALUE]...", help="Overrides of the recipe, e.g. training.steps=100.")]
RunArgument = Annotated[Path, typer.Argument(help="A sealed run directory.")]
MODEL_HELP = "A sealed run; or a folder or Hub id of weights in Hugging Face's format."
DeviceOption = Annotated[str | None, typer.Option(
    "--device", help="auto, cpu, gpu or tpu; by default as in the run's recipe, auto for weights.")]
TemplateOption = Annotated[str | None, typer.Option(
    "--template", help="Chat template of weights (never guessed): gemma, gemma4, tokenizer or plain.")]
EngineOption = Annotated[str | None, typer.Option("--engine", help="Engine for weights: jax, ….")]
PrecisionOption = Annotated[str | None, typer.Option(
    "--precision", help="Number format of weights and arithmetic: fp32 or bf16.")]
TokenizerOption = Annotated[Path | None, typer.Option(
    "--tokenizer", help="Directory of the weights' tokenizer, where it is not next to them.")]
RevisionOption = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub id.")]
MaxNewTokensOption = Annotated[int | None, typer.Option(
    "--max-new-tokens", help="Longest completion, in tokens; by default as in the run's recipe.")]


def typed(**options: Any) -> dict[str, Any]:
    """Only options that were typed: one left out differs from one set to its default."""
    return {name: value for name, value in options.items() if value is not None}


def weights_request(opening: Mapping[str, Any], device: str | None, form: str) -> "WeightsRequest":
    """Request to open plain weights; ``form`` is that of their answers."""
    from workings.runs.open_model import WeightsRequest

    # An empty template is refused when the weights are opened, with the list of those there are.
    return WeightsRequest(device=device or "auto", form=form, **{"template": "", **opening})


def as_recorded(model: str, opening: Mapping[str, Any], example: str, *,
                decoding: tuple[str, ...] = ("max_new_tokens", "batch_size", "scorer")) -> dict[str, Any]:
    """Settings of the run's own evaluation, so that both stay comparable unless options differ.

    Plain weights have no recipe and need options that say how to open them; a run takes none of these.

    Args:
        model: a sealed run, or plain weights.
        opening: the typed options for opening plain weights.
        example: what to type where a template is missing.
        decoding: keys of `evaluation` to use.

    Raises:
        RequestError: weights without a template, or a run with one.
    """
    from workings.record.reader import RunRecord

    path = Path(model)
    if not (path / SEAL).is_file():
        if opening:
            return {}
        # A folder of weights, or a Hub id. `Run.open` reports what any other path lacks.
        if (path / "config.json").is_file() or not path.exists():
            raise RequestError(f"{model} is not a sealed run, and --template is missing",
                               "a sealed run; or weights, with the chat template that they were trained with", example)
    elif opening:
        raise misplaced(opening, "with a sealed run, whose recipe says it")
    # From the manifest: the recipe's file may have been edited since.
    recipe = RunRecord.open(path).manifest.config
    decoding_settings = {name: recipe.get("evaluation", {}).get(name) for name in decoding}
    decoding_settings["form"] = recipe.get("data", {}).get("reasoning")
    # Keys missing in an older record keep this version's defaults.
    return {name: value for name, value in decoding_settings.items() if value is not None}


def misplaced(opening: Mapping[str, Any], where: str) -> RequestError:
    """Error about options that are for plain weights only."""
    return RequestError(f"{' and '.join(f'--{name}' for name in opening)} cannot be used {where}",
                        "these with plain weights only", "leave them out")


def refuse_unread(situation: str, expected: str, **given: bool) -> None:
    """Raise `RequestError` for an option that has no effect in a situation.

    Args:
        situation: the rest of the command, such as ``without --hold-out``.
        expected: when the options have an effect.
        given: by the options' names, with ``_`` for ``-``, whether they have another value than the default.
    """
    if names := [f"--{name.replace('_', '-')}" for name, was_given in given.items() if was_given]:
        raise RequestError(f"{' and '.join(names)} cannot be used {situation}", expected,
                           f"leave {' and '.join(names)} out")
