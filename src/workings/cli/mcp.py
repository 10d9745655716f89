"""`workings mcp`: plan, train and read records as tools of an agent, by the Model Context Protocol."""

import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from workings.errors import RequestError, WorkingsError
from workings.hints import pip_install
from workings.record import jsonl
from workings.record.digest import json_digest
from workings.record.layout import EVALUATION_SUMMARY, MANIFEST, METRICS, partial_path

MANIFEST_FIELDS = ("completed_steps", "planned_steps", "parameters", "training_seconds", "supervised_tokens")
"""Numbers of the manifest that an agent is told."""


@dataclass(kw_only=True)
class AgentTools:
    """The tools of an agent. They write and read runs in one folder."""

    folder: Path
    _plans: dict[str, tuple[str, tuple[str, ...], str]] = field(default_factory=dict)
    """Token, which starts one run -> recipe, overrides, and digest of the resolved recipe."""
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Name of a run that was started here -> its process."""

    def plan(self, recipe: str, overrides: Sequence[str] = (), on: str = "cpu") -> dict[str, Any]:
        """Say whether a run fits and how long it takes; returns the token that `train` needs.

        `recipe` is the name of a shipped recipe, or a file; `overrides` are `key=value` words; `on` is the target, e.g.
        `cpu` for this machine.
        """
        from workings.ui.jobs import ask

        digest = _digest(recipe, overrides)
        found = ask(["plan", recipe, *overrides, "--on", on], Path.cwd(), timeout=None)
        if not found["fits"]:
            raise WorkingsError("\n".join(found["reasons"]))
        token = secrets.token_urlsafe(16)
        self._plans[token] = (recipe, tuple(overrides), digest)
        return {"plan": found, "recipe_digest": digest, "token": token,
                "next": "train with this token starts exactly this recipe, once"}

    def train(self, token: str, name: str) -> dict[str, Any]:
        """Start a planned run of this name and return at once; a token of `plan` is valid for one run."""
        out = self._path(name)
        if token not in self._plans:
            raise RequestError("train needs the token of a plan", "the token that plan gave, which starts one run",
                               "plan RECIPE first")
        if out.exists() or partial_path(out).exists():
            raise RequestError(f"name: {name} already exists", "a new name", f"name={name}-2")
        recipe, overrides, digest = self._plans[token]
        if _digest(recipe, overrides) != digest:
            raise RequestError(f"recipe {recipe} is not what was planned", "the recipe as it was planned",
                               "plan it again")
        del self._plans[token]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            self._children[name] = child = subprocess.Popen(
                [sys.executable, "-m", "workings", "train", recipe, *overrides, "--out", str(out)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        return {"run": name, "process": child.pid, "log": log.name, "recipe_digest": digest}

    def read_record(self, name: str) -> dict[str, Any]:
        """State of a run and its numbers so far, each with its record and field."""
        from workings.record.reader import RunRecord
        from workings.record.values import leaves

        out = self._path(name)
        if not (out / MANIFEST).is_file():
            partial = partial_path(out)
            if not partial.is_dir() and name not in self._children:
                raise RequestError(f"name: {name} is no run", "a run directory of this folder", "list_runs")
            lines, _ = jsonl.read(partial / METRICS)
            numbers = [_number(f"{partial.name}/{METRICS}", f"line {line['step']}, {key}", line[key])
                       for line in lines[-1:] for key in ("step", "loss")]
            return {"run": name, "state": "not sealed", "process": self._process(name), "numbers": numbers}
        run = RunRecord.open(out)
        numbers = [_number(f"{name}/{MANIFEST}", key, getattr(run.manifest, key)) for key in MANIFEST_FIELDS]
        for line in run.metrics()[-1:]:
            numbers += [_number(f"{name}/{METRICS}", f"line {line['step']}, {key}", line[key])
                        for key in ("loss", "evaluation_loss", "held_out_score") if key in line]
        for unit, summary in run.evaluations().items():
            numbers += [_number(f"{name}/eval/{unit}/{EVALUATION_SUMMARY}", key, value)
                        for key, value in leaves(summary) if type(value) in (int, float)]
        return {"run": name, "state": run.status, "reason": run.manifest.status_reason, "root": run.root,
                "process": self._process(name), "numbers": numbers}

    def verify(self, name: str) -> dict[str, Any]:
        """Check a run's record without its weights: what passed, failed and was not checked."""
        from workings.ui.jobs import ask

        return ask(["verify", str(self._path(name))], Path.cwd(), timeout=None)

    def list_runs(self) -> dict[str, Any]:
        """Runs of this folder."""
        return {"runs": sorted(path.parent.name for path in self.folder.glob(f"*/{MANIFEST}"))}

    def _process(self, name: str) -> str:
        if name not in self._children:
            return "not started here"
        code = self._children[name].poll()
        return "running" if code is None else f"ended with {code}; its output is in {name}.log"

    def _path(self, name: str) -> Path:
        # Not a path, so that an agent stays below the folder.
        if not name or Path(name).name != name or name.startswith("."):
            raise RequestError(f"name: {name!r} is not the name of a folder",
                               "the name of a run directory, without slashes", "name=first")
        return self.folder / name


def _digest(recipe: str, overrides: Sequence[str]) -> str:
    from workings.config.load import load_recipe

    return json_digest(load_recipe(recipe, list(overrides)).recipe.model_dump(mode="json"))


def _number(record: str, name: str, value: Any) -> dict[str, Any]:
    return {"record": record, "field": name, "value": value}


def mcp_command(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Folder in which runs are written and read.")
                      ] = Path("runs"),
) -> None:
    """Serve an agent over standard input and output: plan, train with a plan's token, read and verify records."""
    make_server(folder).run("stdio")


def make_server(folder: Path) -> Any:
    """The server over a folder, which is created. Raises `RequestError` if the package mcp is not installed."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError as error:
        raise RequestError(f"workings mcp needs {error.name}", "the package mcp", pip_install("mcp")) from error

    folder.mkdir(parents=True, exist_ok=True)
    tools, server = AgentTools(folder=folder.resolve()), MCPServer("workings")

    def with_tool_errors(tool: Callable[..., Any]) -> Callable[..., Any]:
        """The tool, raising `ToolError`: the server hides the text of any other exception."""
        @wraps(tool)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return tool(*args, **named)
            except WorkingsError as error:
                raise ToolError(str(error)) from error
        return call

    for tool in (tools.plan, tools.train, tools.read_record, tools.verify, tools.list_runs):
        server.tool()(with_tool_errors(tool))
    return server
