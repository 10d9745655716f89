"""Commands with `--json`, options that several commands share, and the request to open a model."""

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from workings.cli.output import AS_JSON
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
_TYPED: ContextVar[frozenset[str]] = ContextVar("typed", default=frozenset())
"""Names of the command's options that were typed, with any value."""


class Plain(typer.core.TyperCommand):
    """A command without `--json`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and remember which options were typed for `refuse_unread`."""
        _TYPED.set(frozenset(name for name in ctx.params if ctx.get_parameter_source(name).name == "COMMANDLINE"))
        return super().invoke(ctx)


def _set_json(context: Any, option: Any, value: bool) -> None:
    AS_JSON.set(value)


JsonFlag = Annotated[bool, typer.Option("--json", callback=_set_json, expose_value=False,
                                        help="Print one JSON object as the last line of standard output.")]


_app_with_json = typer.Typer(add_completion=False)


@_app_with_json.command()
def _has_json(as_json: JsonFlag = False) -> None:
    """Exists for its option only, whose class differs between versions of Typer."""


JSON_OPTION: Any = typer.main.get_command(_app_with_json).params[0]


class Verb(Plain):
    """A command with `--json`; it prints its result with `workings.cli.output.answer`."""

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.params.append(JSON_OPTION)


def given_options(**options: Any) -> dict[str, Any]:
    """Only the options with a value: `given_options(form="tags", scorer=None)` is `{"form": "tags"}`."""
    return {name: value for name, value in options.items() if value is not None}


def refuse_unread(situation: str, expected: str, *names: str) -> None:
    """Raise `RequestError` if one of the options was typed. ``names`` are those of the command's parameters.

    ``situation`` says where the options have no effect (`without --hold-out`), ``expected`` where they have one.
    """
    unread = " and ".join(f"--{name.replace('_', '-')}" for name in names if name in _TYPED.get())
    if unread:
        raise RequestError(f"{unread} cannot be used {situation}", expected, f"leave {unread} out")


def weights_request(loading_options: Mapping[str, Any], device: str | None, form: str) -> "WeightsRequest | None":
    """How to open plain weights whose answers have this ``form``. None without ``loading_options``: for a run."""
    from workings.runs.open_model import WeightsRequest

    if not loading_options:
        return None
    # An empty template is refused when the weights are opened, with the list of those there are.
    return WeightsRequest(device=device or "auto", form=form, **{"template": "", **loading_options})


def as_recorded(model: str, loading_options: Mapping[str, Any], example: str, *,
                decoding: tuple[str, ...] = ("max_new_tokens", "batch_size", "scorer")) -> dict[str, Any]:
    """The settings that a sealed run was evaluated with; new results with the same settings are comparable.

    Empty for plain weights, which need ``loading_options``, such as `template`. Raises `RequestError` for a run with
    such options, and for weights without, with an ``example`` of what to type.
    """
    from workings.record.reader import RunRecord

    path = Path(model)
    if not (path / SEAL).is_file():
        if loading_options:
            return {}
        # A folder of weights, or a Hub id. `RunRecord.open` reports what any other path lacks.
        if (path / "config.json").is_file() or not path.exists():
            raise RequestError(f"{model} is not a sealed run, and --template is missing",
                               "a sealed run; or weights, with the chat template that they were trained with", example)
    refuse_unread("with a sealed run, whose recipe says it", "these with plain weights only", *loading_options)
    # From the manifest: the recipe's file may have been edited since.
    recipe = RunRecord.open(path).manifest.config
    evaluation = recipe.get("evaluation", {})
    settings = {name: evaluation.get(name) for name in decoding}
    # Keys missing in an older record keep this version's defaults.
    return given_options(**settings, form=recipe.get("data", {}).get("reasoning"))
