"""Tabs of a run's page: a file and a template each; address, navigation and JSON twin follow from them."""

import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import jinja2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.testclient import TestClient

from tests.reports.parsed_page import Page
from tests.ui.making import two_runs
from workings.ui import tabs
from workings.ui.routes import run
from workings.ui.site import Site
from workings.ui.tab import Tab, registered

GRADIENTS = '''"""Norms of the gradient."""

from pydantic import BaseModel

from workings.ui.tab import Tab


class Norms(BaseModel):
    """Norms of the gradient, one an update."""

    norms: list[float]


class Query(BaseModel):
    least: float = 0.0


def norms(site, name: str, least: float = 0.0) -> Norms:
    """Norms of at least so much."""
    lines = site.folder.metrics(site.folder.path(name))
    return Norms(norms=[line["grad_norm"] for line in lines if line["grad_norm"] >= least])


TAB = Tab(key="gradients", title="Gradient norms", position=15, shown=lambda run: run.name.endswith("steps"),
          query=Query, values=lambda site, run, query: norms(site, run.name, query.least).model_dump(), answer=norms)
'''
TEMPLATE = "<h2>Gradients</h2>{% for norm in norms %}<p>norm {{ norm }} of {{ row.name }}</p>{% endfor %}"


def test_a_tab_is_one_file_and_a_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, more = tmp_path / "folder", tmp_path / "more"
    two_runs(folder)
    more.mkdir()
    (more / "gradients.py").write_text(GRADIENTS)
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tabs, "__path__", [*tabs.__path__, str(more)])
    site = Site.over(folder)
    site.templates.loader = jinja2.ChoiceLoader([
        jinja2.DictLoader({"tab_gradients.html.jinja": TEMPLATE}), site.templates.loader])
    app = FastAPI()
    try:
        app.include_router(run.router(site, tabs.find_tabs()))
    finally:
        sys.modules.pop("workings.ui.tabs.gradients", None)
    page = TestClient(app)
    norms = page.get("/api/gradients/runs/steps").json()["norms"]
    assert len(norms) > 2
    shown = Page(page.get("/run/runs/steps?tab=gradients").text)
    assert all(f"norm {norm} of runs/steps" in shown.text for norm in norms)
    assert "Curves Gradient norms Device" in " ".join(shown.text.split())
    assert page.get(f"/api/gradients/runs/steps?least={max(norms)}").json() == {"norms": [max(norms)]}
    assert "norm " not in Page(page.get(f"/run/runs/steps?tab=gradients&least={max(norms) + 1}").text).text
    assert page.get("/run/runs/steps?least=many").status_code == 422
    elsewhere = Page(page.get("/run/runs/plain?tab=gradients").text)
    assert "Gradient norms" not in elsewhere.text
    assert "Training loss" in elsewhere.text, "the first tab that is shown"
    described = app.openapi()["paths"]["/api/gradients/{name}"]["get"]
    assert described["description"] == "Norms of at least so much."
    assert described["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/Norms")


def test_the_order_is_written_down_and_every_tab_has_its_file_and_template() -> None:
    assert list(tabs.TABS) == [
        "overview", "curves", "rollouts", "device", "scorecard", "items", "ask", "recipe", "checks", "log"]
    for key in tabs.TABS:
        assert sys.modules[f"workings.ui.tabs.{key}"].TAB is tabs.TABS[key]
        assert (files("workings.ui") / "templates" / f"tab_{key}.html.jinja").is_file()


class Narrow(BaseModel):
    unit: str = ""


@pytest.mark.parametrize(("changes", "said"), [
    ({"key": "items"}, "two tabs have the key 'items'"),
    ({"position": 50}, "tabs '[a-z]+' and '[a-z]+' have the position 50"),
    ({"query": Narrow}, "takes the parameter 'unit', as tab 'items' does"),
    ({"query": type("Own", (BaseModel,), {"__annotations__": {"tab": str}})}, "'tab', as the page itself does"),
])
def test_two_tabs_do_not_share_a_key_a_position_or_a_parameter(changes: dict, said: str) -> None:
    extra = Tab(**({"key": "extra", "title": "Extra", "position": 55} | changes))
    with pytest.raises(ValueError, match=said):
        registered([*tabs.TABS.values(), extra])


@pytest.mark.parametrize(("name", "shown"), [
    ("runs/steps", ["overview", "curves", "device", "scorecard", "items", "ask", "recipe", "checks", "log"]),
    ("runs/bare", ["overview", "curves", "device", "scorecard", "ask", "recipe", "checks", "log"]),
    ("runs/bare.partial", ["overview", "curves", "device", "recipe", "checks", "log"]),
    ("alone", ["scorecard", "items", "checks"]),
])
def test_a_tab_with_nothing_to_show_is_not_there(page: TestClient, tmp_path: Path, name: str,
                                                 shown: list[str]) -> None:
    shutil.copytree(tmp_path / "runs/steps/eval/items", tmp_path / "alone")
    shutil.copytree(tmp_path / "runs/steps", tmp_path / "runs/bare", ignore=shutil.ignore_patterns("eval"))
    shutil.copytree(tmp_path / "runs/bare", tmp_path / "runs/bare.partial",
                    ignore=shutil.ignore_patterns("SEAL.json", "SHA256SUMS", "run_manifest.json"))
    navigation = page.get(f"/run/{name}").text.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    assert re.findall(r'href="[^"]+\?tab=([a-z]+)"', navigation) == shown


def test_only_tabs_that_say_more_than_the_run_have_a_twin(tmp_path: Path) -> None:
    routes = {route.path for route in run.router(Site.over(tmp_path)).routes if isinstance(route, APIRoute)}
    assert {path for path in routes if path.startswith("/api/")} == {
        f"/api/{key}/{{name:path}}" for key in (
            "run", "live", "ask", "curves", "rollouts", "items", "checks")}
