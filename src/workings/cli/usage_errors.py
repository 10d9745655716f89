"""Mistakes of a typed command as errors with what was given, what was expected and what to type."""

import difflib
import re
import shlex
from collections.abc import Sequence
from typing import Any

import typer

from workings.errors import RequestError

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Common base class of Typer's errors for an invalid parameter and an unknown option. Typer versions import it from
different packages, so it is taken from the class hierarchy."""
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
    """Typer's error about ``typed``, the words after the program's name."""
    # `data import --x` is the command `import` of the group `data`.
    command, names = program, []
    for word in typed:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        names.append(word)
    called, option = " ".join(["workings", *names]), getattr(wrong, "option_name", "")
    help_command, listed = f"{called} -h", f"that `{called} -h` lists"
    unknown = next((word for word in typed[len(names):] if not word.startswith("-")), "")
    if hasattr(command, "commands") and unknown:
        return RequestError(f"there is no command {unknown!r}", f"a command {listed}",
                            _right_command(unknown, command, called, typed))
    # Options of other trainers, such as a learning rate, are recipe keys here.
    if key := _suggested_key(option, command):
        return RequestError(f"`{called}` has no option {option}", "recipe keys after the recipe's name, as KEY=VALUE",
                            f"{key}=…")
    if hasattr(wrong, "possibilities"):
        near = difflib.get_close_matches(option, wrong.possibilities or (), 1, 0.85)  # not `--json` for `--on`
        return RequestError(f"`{called}` has no option {option}", near[0] if near else f"an option {listed}",
                            help_command)
    parameter = getattr(wrong, "param", None) or next((each for each in command.params if option in each.opts), None)
    message = wrong.format_message().replace("Value error, ", "")
    expected = _lowered(getattr(parameter, "help", "")) or f"what `{called} -h` lists"
    if hasattr(wrong, "param_type") and parameter is not None:
        choices = re.findall(r"[\w.-]+", message.partition("Choose from:")[2])
        name = (parameter.metavar or parameter.name).rstrip(".")
        if parameter.param_type_name == "option":
            name = parameter.opts[0]
        elif not name.isupper():
            name = f"the {name}"
        message = f"{name} is missing"
        expected = ": ".join(filter(None, (expected, ", ".join(choices))))
    return RequestError(_lowered(message), expected, help_command)


def _right_command(unknown: str, command: Any, called: str, typed: Sequence[str]) -> str:
    """What to type in place of an unknown command: one that does the same, one with a similar name, or the help."""
    near = difflib.get_close_matches(unknown, command.commands, 1)
    if called != "workings" or unknown not in INSTEAD:
        return f"{called} {near[0] if near else '-h'}"
    # A command that only moved takes the same arguments.
    rest = typed[typed.index(unknown) + 1:] if INSTEAD[unknown].startswith("data ") else ()
    return shlex.join(["workings", *INSTEAD[unknown].split(), *rest]) if rest else f"workings {INSTEAD[unknown]}"


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


def _lowered(sentence: str | None) -> str:
    """A sentence as part of a message: no capital, no full stop."""
    text = (sentence or "").rstrip(".")
    return text[:1].lower() + text[1:]
