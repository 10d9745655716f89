"""Translates options in error messages to Python arguments: `--out DIR` becomes `out`."""

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from workings.errors import RequestError, WorkingsError

P = ParamSpec("P")
R = TypeVar("R")
# A command for a shell stays as it is, up to the end of its line or its closing mark.
_COMMAND = re.compile(r"`[^`]*`|\bworkings [a-z]+ [^,\n]*|\S*python\S* -m .*")
_SWITCH = re.compile(r"(?P<bare>\b(?:without|leave) )?--(?P<name>force|resume|smoke)\b")
_OPTION = re.compile(r"(?P<bare>\b(?:another|without|no) )?--(?P<name>[a-z][a-z-]*)(?: (?P<value>[^\s,;:=]+)(?!=))?")
# Two options beside each other are two arguments.
_TWO = re.compile(r'(=(?:"[^"]*"|[\w.]+)) (?=[a-z_]+=)')


def in_python_words(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function: its errors name arguments where the rooms below name command-line options."""
    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except RequestError as error:
            # The same error object, because its class is the kind of mistake.
            RequestError.__init__(error, *map(python_words, (error.given, error.expected, error.try_next)))
            raise
        except WorkingsError as error:
            error.args = tuple(python_words(part) if isinstance(part, str) else part for part in error.args)
            raise
    return call


def python_words(text: str) -> str:
    """A part of an error message with arguments in place of options."""
    text = text.replace("at the end of the command", "in overrides")
    parts, end = [], 0
    for command in _COMMAND.finditer(text):
        parts += [_arguments(text[end:command.start()]), command[0]]
        end = command.end()
    return "".join([*parts, _arguments(text[end:])])


def _arguments(text: str) -> str:
    replaced = _SWITCH.sub(
        lambda switch: f"{switch['bare'] or ''}{switch['name']}" + ("" if switch["bare"] else "=True"), text)
    replaced = _OPTION.sub(_argument, replaced)
    return replaced if replaced == text else _TWO.sub(r"\1, ", replaced)


def _argument(option: re.Match[str]) -> str:
    bare, value, name = option["bare"] or "", option["value"], option["name"].replace("-", "_")
    # After "another --out" the sentence goes on.
    if bare or value is None:
        return f"{bare}{name}" + (f" {value}" if value else "")
    return f"{name}={value}" if re.fullmatch(r"[0-9.]+", value) else f'{name}="{value}"'
