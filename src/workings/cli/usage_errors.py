"""Mistakes of a typed command as errors with what was given, what was expected and a command to try."""

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from workings.errors import RequestError

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Common base class of Typer's errors for an invalid parameter and an unknown option. Typer versions import it from
different packages, so it is taken from the class hierarchy."""
EXAMPLES = {
    "a": "runs/A", "b": "runs/B", "file": "TRACES.jsonl",
    "kind": "addition", "launcher": "slurm", "model": "runs/NAME", "on": "cpu",
    "out": "FOLDER", "prompts": "ITEMS.jsonl", "question": "What is 12 + 30?", "recipe": "quickstart",
    "run": "runs/NAME", "runs": "runs/NAME", "samples": "SAMPLES", "source": "gs://BUCKET/runs/NAME",
    "target": "mine.yaml", "user": "NAME", "write": "FOLDER",
    "data import out": "TRACES.jsonl", "data import file": "ROWS.csv",
    "recipes copy name": "quickstart", "recipes show name": "quickstart"}
"""Examples of required parameters, by name or by command and name."""

ASK = "ask runs/NAME 'What is 12 + 30?'"
INSTEAD = {
    "baseline": "gate RUN --save NAME", "chat": ASK, "generate": ASK, "info": "runs",
    "judge": "reward judge", "kaggle": "launch --for kaggle", "key": "runs sign --new-key KEY.pem", "list": "runs",
    "ls": "runs", "parity": "doctor RECIPE --engines", "replay": "verify RUN --level 3",
    "resume": "train RECIPE --out RUN --resume", "select": "data select", "sign": "runs sign RUN --key KEY.pem",
    "status": "runs", "track": "train RECIPE --track wandb"}
"""The right command for words that are commands of other programs, or subcommands here."""


@contextmanager
def in_given_expected_try(program: Any, typed: Sequence[str]) -> Iterator[None]:
    """Raises Typer's errors about ``typed``, the words after the program's name, as `RequestError`."""
    try:
        yield
    except USAGE_ERROR as wrong:
        # Not a mistake: a group without a command prints its help.
        if type(wrong).__name__ == "NoArgsIsHelpError":
            raise
        raise _request_error(wrong, program, typed) from None


def _request_error(wrong: Any, program: Any, typed: Sequence[str]) -> RequestError:
    command, names = _command_of(program, typed)
    called, option = " ".join(["workings", *names]), getattr(wrong, "option_name", "")
    if hasattr(command, "commands") and (unknown := next((w for w in typed[len(names):] if w[:1] != "-"), "")):
        near = difflib.get_close_matches(unknown, command.commands, 1)
        return RequestError(f"there is no command {unknown!r}", f"a command that `{called} -h` lists",
                            f"workings {INSTEAD[unknown]}" if command is program and unknown in INSTEAD else
                            f"{called} {near[0] if near else '-h'}")
    # Options of other trainers, such as a learning rate, are recipe keys here.
    if key := _suggested_key(option, command):
        return RequestError(f"`{called}` has no option {option}", "recipe keys after the recipe's name, as KEY=VALUE",
                            f"{key}=…")
    if hasattr(wrong, "possibilities"):
        return _unknown_option(wrong, called, typed)
    if hasattr(wrong, "param_type") and wrong.param is not None:
        return _missing(wrong, names, typed)
    listed = f"what `{called} -h` lists"
    parameter = getattr(wrong, "param", None) or next((each for each in command.params if option in each.opts), None)
    if option and parameter is not None and typed[-1] == option:
        return RequestError(f"{option} needs a value", _lowered(parameter.help) or listed,
                            _joined([*typed, _example(parameter, names)]))
    message = wrong.format_message().replace("Value error, ", "")
    return RequestError(_lowered(message), _lowered(getattr(parameter, "help", "")) or listed, f"{called} -h")


def _command_of(program: Any, typed: Sequence[str]) -> tuple[Any, list[str]]:
    """The typed command, or the group that lacks it; and its words."""
    command, names = program, []
    for word in typed:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        names.append(word)
    return command, names


def _missing(wrong: Any, names: list[str], typed: Sequence[str]) -> RequestError:
    """The error about the first missing parameter, with a command that has all of them."""
    # Typer reads typed options first, then arguments, then other options: what it has not read is missing.
    missing = [parameter for parameter in wrong.ctx.command.params
               if parameter.required and parameter.name not in wrong.ctx.params]
    words = [word for parameter in missing for word in (
        *([parameter.opts[0]] if parameter.param_type_name == "option" else []), _example(parameter, names))]
    choices = re.findall(r"[\w.-]+", wrong.format_message().partition("Choose from:")[2])
    # Older versions of Typer have no help of arguments.
    expected = ": ".join(filter(None, (_lowered(wrong.param.help) or "one, as below", ", ".join(choices))))
    name = _name(wrong.param)
    return RequestError(f"{name if name.startswith('-') or name.isupper() else f'the {name}'} is missing", expected,
                        _joined([*typed, *words]))


def _unknown_option(wrong: Any, called: str, typed: Sequence[str]) -> RequestError:
    name, option_of_name = wrong.option_name, {option.lstrip("-"): option for option in wrong.possibilities or ()}
    # Typer's own suggestions are poor: for `--on` it suggests `--json`.
    near = difflib.get_close_matches(name.lstrip("-"), option_of_name, 1, 0.8)
    if not near:
        return RequestError(f"`{called}` has no option {name}", f"an option that `{called} -h` lists", f"{called} -h")
    nearest = option_of_name[near[0]]
    return RequestError(f"`{called}` has no option {name}", nearest, _joined(
        [nearest + word[len(name):] if word.partition("=")[0] == name else word for word in typed]))


def _suggested_key(option: str, command: Any) -> str:
    """The key of a recipe that was typed like an option (`--steps 5`); empty for any other mistake."""
    if not option or not any(parameter.name == "overrides" for parameter in command.params) or any(
            option in parameter.opts for parameter in command.params):
        return ""
    from workings.config.aliases import table
    from workings.config.recipe import known_keys

    typed = option.lstrip("-").replace("-", "_")
    elsewhere = table().get(typed, {}).get("key", "")
    return next((key for key in known_keys() if typed in (key, key.rpartition(".")[2])), elsewhere)


def _name(parameter: Any) -> str:
    return str(parameter.opts[0] if parameter.param_type_name == "option"
               else (parameter.metavar or parameter.name).rstrip("."))


def _lowered(sentence: str | None) -> str:
    """A sentence as part of a message: no capital, no full stop."""
    text = (sentence or "").rstrip(".")
    return text[:1].lower() + text[1:]


def _example(parameter: Any, names: list[str]) -> str:
    return EXAMPLES.get(" ".join([*names, parameter.name]), EXAMPLES.get(parameter.name, parameter.name.upper()))


def _joined(words: Sequence[str]) -> str:
    return f"workings {shlex.join(words)}"
