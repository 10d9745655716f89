"""An agent plans, trains with the plan's token, and reads the record, through the client of MCP's own SDK."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from workings.cli.mcp import AgentTools
from workings.errors import RequestError
from workings.record.layout import MANIFEST

WORDS = ["engine=unigram", "training.steps=2", "evaluation={traces: addition, items: none, every_steps: 2}"]
"""With the engine that imports no framework: every tool is a process of its own."""


def test_nothing_starts_without_a_plan_or_outside_of_the_folder(tmp_path: Path) -> None:
    tools = AgentTools(folder=tmp_path)
    with pytest.raises(RequestError, match="train needs the token of a plan"):
        tools.train("guessed", "first")
    for name in ("../first", "a/b", "", ".hidden", "/tmp"):
        with pytest.raises(RequestError, match="the name of a run directory"):
            tools.read_record(name)
    with pytest.raises(RequestError, match=r"name: .* is no run"):
        tools.read_record("first")
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_that_changed_after_its_plan_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tmp_path / "recipe.yaml"
    from tests.config.minimal_recipe import MINIMAL
    recipe.write_text(MINIMAL)
    monkeypatch.setattr("workings.ui.jobs.ask", lambda words, cwd, timeout: {"words": list(words), "fits": True})
    tools = AgentTools(folder=tmp_path)
    planned = tools.plan(str(recipe), ["seed=3"])
    assert planned["plan"]["words"] == ["plan", str(recipe), "seed=3", "--on", "cpu"]
    recipe.write_text(MINIMAL + "\ncheckpoint: {every_steps: 3}\n")
    with pytest.raises(RequestError, match="is not what was planned"):
        tools.train(planned["token"], "first")


@pytest.mark.slow
def test_a_session_of_the_sdk_s_client(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from workings.cli.mcp import make_server

    async def session() -> None:
        async with mcp.Client(make_server(tmp_path)) as client:
            async def call(tool: str, **arguments: object) -> dict:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return json.loads(result.content[0].text)

            listed = await client.list_tools()
            assert sorted(tool.name for tool in listed.tools) == [
                "list_runs", "plan", "read_record", "train", "verify"]
            planned = await call("plan", recipe="smoke-tiny", overrides=WORDS)
            assert planned["plan"]["fits"] is True
            started = await call("train", token=planned["token"], name="first")
            assert started["recipe_digest"] == planned["recipe_digest"]
            again = await client.call_tool("train", {"token": planned["token"], "name": "second"})
            assert again.is_error
            assert "train needs the token of a plan" in again.content[0].text
            while (record := await call("read_record", name="first"))["process"] == "running":
                time.sleep(0.2)
            assert (record["state"], record["process"]) == ("complete", "ended with 0; its output is in first.log")
            steps = next(number for number in record["numbers"] if number["field"] == "completed_steps")
            assert steps == {"record": f"first/{MANIFEST}", "field": "completed_steps", "value": 2}
            assert all(set(number) == {"record", "field", "value"} for number in record["numbers"])
            verified = await call("verify", name="first")
            assert verified["failed"] == 0 < verified["passed"]
            assert await call("list_runs") == {"runs": ["first"]}

    asyncio.run(session())
