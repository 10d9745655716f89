"""Typer's errors about a typed command, as `RequestError`: what was given, what was expected, what to type."""

import difflib
import re
import shlex
from collections.abc import Sequence
from typing import Any

import typer

from workings.errors import RequestError

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of Typer's errors about a command line. Versions of Typer have it from different packages."""
ASK = "ask runs/NAME 'What is 12 + 30?'"
INSTEAD = {
    "baseline": "compare RUN --save baselines/NAME", "chat": ASK, "gate": "compare RUN --gate baselines/NAME",
    "generate": ASK, "info": "runs", "judge": "reward judge", "kaggle": "launch --for kaggle",
    "key": "runs sign --new-key KEY.pem", "list": "runs", "ls": "runs", "parity": "doctor RECIPE --engines",
    "replay": "verify RUN --level 3", "resume": "train RECIPE --out RUN --resume", "sample": "data sample",
    "select": "data select", "sign": "runs sign RUN --key KEY.pem", "status": "runs",
    "track": "train RECIPE --track wandb"}
"""The right command for words that are commands of other programs, subcommands here, or were commands here."""


def request_error(wrong: Any, program: Any, typed: Sequence[str]) -> RequestError:
    """The error ``wrong`` that Typer raised about ``typed``, the words after the program's name."""
    # The command that was called, which may be in a group: `data import`.
    command, names = program, []
    for word in typed:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        names.append(word)
    called = " ".join(["workings", *names])
    help_command = f"{called} -h"
    unknown = next((word for word in typed[len(names):] if not word.startswith("-")), "")
    if hasattr(command, "commands") and unknown:
        return RequestError(f"there is no command {unknown!r}", f"a command that `{help_command}` lists",
                            _right_command(unknown, command, called, typed))
    option = getattr(wrong, "option_name", "")
    key = _suggested_key(option, command)
    if key:
        return RequestError(f"`{called}` has no option {option}", "recipe keys after the recipe's name, as KEY=VALUE",
                            f"{key}=…")
    if hasattr(wrong, "possibilities"):  # an unknown option
        near = difflib.get_close_matches(option, wrong.possibilities or (), 1, 0.85)  # not `--json` for `--on`
        return RequestError(f"`{called}` has no option {option}",
                            near[0] if near else f"an option that `{help_command}` lists", help_command)
    message = wrong.format_message().replace("Value error, ", "")
    parameter = getattr(wrong, "param", None) or next((each for each in command.params if option in each.opts), None)
    expected = _lowered(getattr(parameter, "help", "")) or f"what `{help_command}` lists"
    is_missing = hasattr(wrong, "param_type")  # otherwise its value is wrong
    if not is_missing or parameter is None:
        return RequestError(_lowered(message), expected, help_command)
    choices = re.findall(r"[\w.-]+", message.partition("Choose from:")[2])
    listed = f": {', '.join(choices)}" if choices else ""
    return RequestError(f"{_name_of(parameter)} is missing", expected + listed, help_command)


def _name_of(parameter: Any) -> str:
    """A parameter in a message: `--out`, `RUN`, or `the recipe`."""
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    name = str(parameter.metavar or parameter.name).rstrip(".")
    return name if name.isupper() else f"the {name}"


def _right_command(unknown: str, command: Any, called: str, typed: Sequence[str]) -> str:
    """What to type in place of an unknown command: one that does the same, one with a similar name, or the help."""
    if called != "workings" or unknown not in INSTEAD:
        near = difflib.get_close_matches(unknown, command.commands, 1)
        return f"{called} {near[0] if near else '-h'}"
    instead = f"workings {INSTEAD[unknown]}"
    if not instead.startswith("workings data "):
        return instead
    # A command that moved to the group `data` takes the same arguments.
    return shlex.join([*instead.split(), *typed[typed.index(unknown) + 1:]])


def _suggested_key(option: str, command: Any) -> str:
    """The recipe's key that was typed as an option (`--steps 5` for `training.steps=5`); empty for other mistakes."""
    takes_keys = any(parameter.name == "overrides" for parameter in command.params)
    is_known = any(option in parameter.opts for parameter in command.params)
    if not option or not takes_keys or is_known:
        return ""
    from workings.config.aliases import table
    from workings.config.recipe import known_keys

    typed = option.lstrip("-").replace("-", "_")
    # Other trainers' names of keys are in the table of aliases.
    alias = table().get(typed, {}).get("key", "")
    return next((key for key in known_keys() if typed in (key, key.rpartition(".")[2])), alias)


def _lowered(sentence: str | None) -> str:
    """A sentence as part of a message: no capital, no full stop."""
    text = (sentence or "").rstrip(".")
    return text[:1].lower() + text[1:]
