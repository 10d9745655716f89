"""`workings mcp`: plan, train and read records as tools of an agent, by the Model Context Protocol."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.errors import RequestError, WorkingsError
from workings.hints import pip_install


def mcp_command(
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Folder in which runs are written and read.")
                      ] = Path("runs"),
) -> None:
    """Serve an agent over standard input and output: plan, train with a plan's token, read and verify records."""
    make_server(folder).run("stdio")


def make_server(folder: Path) -> Any:
    """The server over a folder, which is made. Raises `RequestError` if the package is not installed."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    # An extra: only machines with an agent need it.
    except ModuleNotFoundError as error:
        raise RequestError(f"workings mcp needs {error.name}", "the package mcp",
                           pip_install("mcp")) from error
    from workings.runs.agent_tools import TOOLS, AgentTools

    folder.mkdir(parents=True, exist_ok=True)
    tools, server = AgentTools(folder=folder.resolve()), MCPServer("workings")

    def told(tool: Callable[..., Any]) -> Callable[..., Any]:
        # The server hides the text of any other exception.
        @wraps(tool)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return tool(*args, **named)
            except WorkingsError as error:
                raise ToolError(str(error)) from error
        return call

    for name in TOOLS:
        server.tool()(told(getattr(tools, name)))
    return server
