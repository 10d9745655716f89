"""Makes a notebook and its script twin from a recipe: one template, cut at its `# %%` lines."""

import re
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import requires
from importlib.resources import files
from types import ModuleType

from workings.errors import RequestError
from workings.hints import pip_install
from workings.kaggle.settings import Machine

UPGRADABLE = "jax"
"""Library that is the only one which an image may have too old, and which a notebook may then install anew."""
JAX_TESTED = "0.10.2"
"""The version that a notebook may install if the image's version is too old."""
_CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?\n", re.MULTILINE)
_MARK = re.compile(r"@@([A-Z0-9_]+)@@")


@dataclass(frozen=True, kw_only=True)
class NotebookRequest:
    """A request for a notebook."""

    name: str
    """The recipe's name, and the run's."""
    recipe: str
    """The recipe as it is written into the notebook."""
    libraries: tuple[str, ...]
    """Modules that the run's engine needs."""
    machine: Machine
    data: dict[str, str]
    """Data files by the path that the recipe names, with their SHA-256."""
    wheel_sha256: str = ""
    """Empty: the digest that is next to the wheel counts."""
    smoke: bool = False


def script(request: NotebookRequest) -> str:
    """The script twin: the notebook's cells in one script."""
    # Values that become code go in as literals, by `repr`: a quote in a name cannot end the string.
    machine = request.machine
    values = {
        "TITLE": f"workings: {request.name} on {machine.editor_name}",
        "SUMMARY": "Doctor, plan, smoke run, training, evaluation, verification and packing of one recipe.",
        "EDITOR_NAME": machine.editor_name, "SESSION_HOURS": f"{machine.session_hours:g}",
        "RUN": repr(request.name), "RUN_NAME": request.name, "TARGET": repr(machine.target),
        "SMOKE": repr(request.smoke), "WHEEL_SHA256": repr(request.wheel_sha256),
        "JAX_NEEDED": repr(jax_needed() if UPGRADABLE in request.libraries else ""),
        "JAX_PIN": repr(f"jax[{machine.jax_extra}]=={JAX_TESTED}"),
        "DATA": repr(dict(sorted(request.data.items()))), "RECIPE": _literal(request.recipe),
    }
    text = (files("workings.kaggle") / "template.py.txt").read_text(encoding="utf-8")
    # A function as replacement, because backslashes in a recipe would mean groups in a text.
    return _MARK.sub(lambda match: values[match.group(1)], text)


def notebook_text(request: NotebookRequest) -> str:
    """The notebook as the bytes of an `.ipynb` file, the same for the same request."""
    try:
        nbformat: ModuleType = import_module("nbformat")
    except ModuleNotFoundError:
        raise RequestError("a notebook needs the package nbformat", "the extra `kaggle`",
                           pip_install("kaggle")) from None
    notebook = nbformat.v4.new_notebook(metadata={
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"}})
    for number, (markdown, source) in enumerate(cells(script(request))):
        make = nbformat.v4.new_markdown_cell if markdown else nbformat.v4.new_code_cell
        notebook.cells.append(make(source, id=f"cell-{number:02d}"))  # otherwise ids are random
    # An invalid notebook should fail here, and not after the upload.
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def cells(text: str) -> list[tuple[bool, str]]:
    """The cells of a script in percent format: whether it is Markdown, and its source."""
    matches = list(_CELL.finditer(text))
    # A cell ends where the next one begins; text before the first mark belongs to none.
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return [(bool(match["markdown"]), _source(text[match.end():end], markdown=bool(match["markdown"])))
            for match, end in zip(matches, ends, strict=True)]


def jax_needed() -> str:
    """The oldest JAX that the installed package asks for."""
    # From the installed package and not from a constant, so that the notebook asks for what this version asks for.
    for line in requires("workings") or []:
        if match := re.match(r"jax\s*>=\s*([\d.]+)", line):
            return match.group(1)
    return JAX_TESTED


def _source(text: str, *, markdown: bool) -> str:
    text = text.strip("\n")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines()) if markdown else text


def _literal(text: str) -> str:
    """A Python literal that people can read: the recipe's lines as they are, unless quotes in them forbid it."""
    # Either would end or change a triple-quoted string.
    if '"""' in text or "\\" in text:
        return repr(text)
    return f'"""\\\n{text}"""' if text.endswith("\n") else f'"""\\\n{text}\n"""'
