"""`/plan`: a recipe on machines that are not here, as bars against their limits."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from pydantic import BaseModel

from workings.config.load import shipped_recipes
from workings.hardware.catalog import targets
from workings.ui.draw import stacked_bars
from workings.ui.jobs import Job
from workings.ui.requests import override_words, recipe_argument, recipe_files, target_names
from workings.ui.site import Site

QUICK = ("data.max_length", "batch.micro_batch", "batch.accumulation", "optimizer.name", "method.name")
"""Keys that the form offers by name; any other goes into the overrides."""


class TargetRow(BaseModel):
    """A machine of the catalog."""

    name: str
    title: str
    devices: int
    memory_bytes: int


def catalog() -> list[TargetRow]:
    """Machines that can be planned for."""
    return [TargetRow(name=name, title=getattr(target, "title", name), devices=target.devices,
                      memory_bytes=target.memory_bytes) for name, target in targets().items()]


def started(site: Site, recipe: str, chosen: list[str], overrides: list[str]) -> list[Job]:
    """One `workings plan` a target."""
    place = recipe_argument(site.folder, recipe)
    # One child a target: they work at the same time, and one that fails hides no other.
    return [site.jobs.start("plan", [place, *overrides, "--on", target], subject=f"{recipe} on {target}")
            for target in target_names(chosen)]


def bar(job: Job) -> Markup | None:
    """The parts of a finished plan against its target's limit."""
    answer: dict[str, Any] = job.answer or {}
    parts = [(str(part["name"]), int(part["size_bytes"])) for part in answer.get("parts", [])
             if int(part["size_bytes"]) > 0]
    if "limit_bytes" not in answer or not parts:
        return None
    return stacked_bars([(f"{answer.get('target', '')}, {answer['devices']} devices", parts)], answer["limit_bytes"])


def router(site: Site) -> APIRouter:
    """Routes of the planner."""
    routes = APIRouter()

    @routes.get("/api/targets")
    def targets_json() -> list[TargetRow]:
        """Machines that can be planned for."""
        return catalog()

    @routes.post("/api/plan")
    def plan_json(recipe: Annotated[str, Form()], target: Annotated[list[str], Form()],
                  overrides: Annotated[str, Form()] = "") -> list[Job]:
        """Start a plan a target; look at the jobs for their answers."""
        return started(site, recipe, target, override_words(overrides))

    @routes.get("/plan", include_in_schema=False)
    def plan_page(recipe: str = "", target: Annotated[list[str] | None, Query()] = None, overrides: str = "",
                  job: Annotated[list[str] | None, Query()] = None) -> HTMLResponse:
        jobs = [site.jobs.get(name) for name in job or []]
        return site.html("plan.html.jinja", page="plan", recipe=recipe, chosen=target or [], overrides=overrides,
                         jobs=[(found, bar(found)) for found in jobs], catalog=catalog(), quick=QUICK,
                         waiting=any(found.state == "running" for found in jobs),
                         shipped=list(shipped_recipes()), written=recipe_files(site.folder))

    @routes.post("/plan", include_in_schema=False)
    def plan_form(recipe: Annotated[str, Form()], target: Annotated[list[str] | None, Form()] = None,
                  overrides: Annotated[str, Form()] = "") -> RedirectResponse:
        # The form answers with a redirect to an address that names the jobs: reading the page again starts nothing.
        jobs = started(site, recipe, target or [], override_words(overrides))
        query = [("recipe", recipe), *(("target", name) for name in target or []), ("overrides", overrides),
                 *(("job", job.id) for job in jobs)]
        return RedirectResponse("/plan?" + urlencode(query), 303)

    return routes

