"""`workings ui`: a local page over a folder of runs."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import say
from workings.errors import RequestError
from workings.hints import pip_install


def ui_command(
    folder: Annotated[Path, typer.Argument(help="The folder of runs.")] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8765,
    new_token: Annotated[bool, typer.Option("--new-token", help="Make a new token: links of earlier starts stop "
                                            "working.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Open a local page over a folder of runs. It listens on this machine only; the printed link holds its token."""
    try:
        from workings.ui.serve import serve
    except ModuleNotFoundError as error:
        raise RequestError(f"workings ui needs {error.name}", "the libraries of the page", pip_install("ui")) from error
    if not folder.is_dir():
        raise RequestError(f"there is no folder {folder}", "a folder, which may be empty", f"mkdir {folder}")
    serve(folder, port, open_browser=browser, say=say, new_token=new_token)
