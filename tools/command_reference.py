"""Writes docs/reference/commands.md from the program's own help: ``python -m tools.command_reference [--check]``.

Asks the program for its help, and goes into every group of commands. ``--check`` writes nothing and
exits with 1 if the committed page is not what would be written.
"""

import sys
from pathlib import Path
from typing import Any

import typer
from click.testing import CliRunner

from tools.generated import deliver
from workings.cli.main import app

PAGE = Path("docs/reference/commands.md")

HEAD = """# Commands

`python -m workings` is the same as `workings`. Every command takes `--json`: one JSON object as the last line of
standard output; progress and explanations go to standard error. Where a command fails, the object is `error`, with
`message`, `exit_code`, and of a wrong request `given`, `expected` and `try`. `tools/option_effects.py` says of each
option what shows that it matters: two calls that differ, or a test.

| exit code | meaning |
|---|---|
| 0 | yes |
| 1 | no: does not fit, gate failed, verification failed, training failed |
| 2 | the request is wrong: the message says what was given, what was expected and what to type next |
| 3 | inconclusive, or below a level that was required |
| 130 | interrupted |
"""


PROGRAM: Any = typer.main.get_command(app)
"""Made once: typer makes all commands again each time it is asked for one."""


def help_text(*words: str) -> str:
    """What ``workings WORDS --help`` prints, at a fixed width and without color."""
    # In this process: a page has some forty helps, and a process for each takes ten seconds.
    environment = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    done = CliRunner().invoke(PROGRAM, [*words, "--help"], prog_name="workings", env=environment, terminal_width=78,
                              catch_exceptions=False)
    text = done.stdout
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def commands_of(*words: str) -> list[str]:
    """Names of the commands below ``workings WORDS``, in the order of its help; empty for a verb."""
    command = PROGRAM
    for word in words:
        command = command.commands[word]
    return [] if not hasattr(command, "commands") else list(command.list_commands(None))


def render() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_pages(())])


def _pages(words: tuple[str, ...]) -> list[str]:
    text = help_text(*words)
    parts = [f"## `{' '.join(('workings', *words))}`\n", f"```text\n{text}\n```\n"]
    for name in commands_of(*words):
        parts += _pages((*words, name))
    return parts


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
