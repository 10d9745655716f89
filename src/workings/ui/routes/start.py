"""`/start`: forms that start commands, with a recipe's keys as fields; `/jobs`: the started commands."""

import typing
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from workings.config.load import load_recipe
from workings.config.recipe import section_at
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.record.layout import PARTIAL_SUFFIX, numbered
from workings.record.values import leaves
from workings.reports.gather import recipe_of
from workings.ui.jobs import Job, json_object
from workings.ui.requests import FIRST_RECIPE, new_place, override_words, recipe_argument, recipe_choices
from workings.ui.site import Site


def recipe_fields(recipe: str) -> dict[str, list[dict[str, Any]]]:
    """Section -> fields of a recipe's keys, without lists. Raises `RequestError` for an invalid recipe."""
    sections: dict[str, list[dict[str, Any]]] = {name: [] for name in FIRST_SECTIONS}
    for key, value in leaves(load_recipe(recipe).resolved()):
        if not isinstance(value, list):
            section, _, rest = key.partition(".")
            sections.setdefault(section if rest else "recipe", []).append(_field(key, value))
    return {name: fields for name, fields in sections.items() if fields}


def _field(key: str, value: Any) -> dict[str, Any]:
    """A key, its value as text, its help, and its choices if there is a fixed number of them."""
    *place, name = key.split(".")
    # Several, if the section is of one of several kinds.
    fields = [section.model_fields[name] for section in section_at(place) if name in section.model_fields]
    choices: list[str] = []
    for field in fields:
        if typing.get_origin(field.annotation) is typing.Literal:
            choices += map(str, typing.get_args(field.annotation))
    text, is_number = str(value), isinstance(value, int | float)
    if isinstance(value, bool):
        text, is_number, choices = text.lower(), False, ["true", "false"]
    return {"key": key, "value": text, "help": (fields[0].description or "") if len(fields) == 1 else "",
            "choices": list(dict.fromkeys(choices)) if text in choices else [], "number": is_number}


Text = Annotated[str, Form()]
Flag = Annotated[bool, Form()]
FIRST_SECTIONS = ("model", "data", "method", "training")
"""Sections that the form shows first and opened."""


def verbs(site: Site) -> dict[str, Callable[..., Job]]:
    """Command -> the function that starts it; its parameters are the fields of the form."""

    def quickstart(out: Text = "quickstart") -> Job:
        """Run the quickstart into a new folder."""
        return site.jobs.start("quickstart", ["--out", new_place(site.folder, out)], subject=out)

    def train(recipe: Text, out: Text, overrides: Text = "", smoke: Flag = False, resume: Flag = False) -> Job:
        """Train a recipe into a new run of this folder, or resume an unfinished one."""
        run_path = str(site.folder.inside(out)) if resume else new_place(site.folder, out)
        chosen, words = recipe_argument(site.folder, recipe), override_words(overrides)
        load_recipe(chosen, words)  # its errors are shown on the form
        flags = (["--smoke"] if smoke else []) + (["--resume"] if resume else [])
        return site.jobs.start("train", [chosen, *words, "--out", run_path, *flags], subject=out)

    def resume(run: Text) -> Job:
        """Resume an unfinished run with its recipe and overrides."""
        run_path = site.folder.path(run)
        return site.jobs.start("train", [recipe_of(run_path), "--out", str(site.folder.inside(run)), "--resume"],
                               subject=site.folder.name(run_path))

    def evaluate(run: Text, items: Text, name: Text) -> Job:
        """Evaluate a run on items: a shipped name, or a file inside the folder."""
        run_path = site.folder.path(run)
        file = site.folder.inside(items)
        if items != "eval" and (items.startswith("-") or not file.is_file()):
            raise RequestError(f"there is no file of items {items}", "`eval`, or a file of items in this folder",
                               "eval")
        out = new_place(site.folder, f"{run}/eval/{name}")
        return site.jobs.start("eval", [str(run_path), "--items", items if items == "eval" else str(file), "--out",
                                        out], subject=run)

    def verify(run: Text) -> Job:
        """Verify a run."""
        return site.jobs.start("verify", [str(site.folder.path(run))], subject=run)

    def replay(run: Text) -> Job:
        """Replay steps of a run."""
        return site.jobs.start("verify", [str(site.folder.path(run)), "--level", "3"], subject=run)

    return {"quickstart": quickstart, "train": train, "resume": resume, "eval": evaluate, "verify": verify,
            "replay": replay}


def router(site: Site) -> APIRouter:
    """Routes that start commands, by a form or as JSON, and that show them."""
    routes = APIRouter()

    @routes.get("/start", include_in_schema=False)
    def start_page(recipe: str = FIRST_RECIPE, overrides: str = "") -> HTMLResponse:
        return _page(site, {"recipe": recipe, "overrides": overrides})

    for verb, start in verbs(site).items():
        routes.add_api_route(f"/api/{verb}", start, methods=["POST"], name=verb)
        routes.add_api_route(f"/start/{verb}", _redirecting(site, start), methods=["POST"], include_in_schema=False,
                             response_model=None)

    @routes.get("/api/jobs")
    def jobs_json() -> list[Job]:
        """Commands that this page started, the newest first."""
        return site.jobs.all()

    @routes.get("/api/jobs/{identity}")
    def job_json(identity: str) -> Job:
        """One command, with the end of its output and its answer."""
        return site.jobs.get(identity)

    @routes.get("/api/jobs/{identity}/pieces")
    def pieces(identity: str, after: Annotated[int, Query(ge=0)] = 0) -> dict[str, Any]:
        """Text that models wrote to a question after a place in the command's output, and the place where it ends."""
        running = site.jobs.get(identity).state == "running"  # asked before reading, so that nothing is lost
        lines = [*site.jobs.lines(identity, after)]
        values = [json_object(line) or {} for _, line in lines]
        return {"running": running, "end": lines[-1][0] if lines else after,
                "pieces": [{key: value[key] for key in ("model", "piece")} for value in values if "piece" in value]}

    @routes.get("/jobs", include_in_schema=False)
    def jobs_page() -> HTMLResponse:
        return site.html("jobs.html.jinja", page="jobs", jobs=site.jobs.all())

    @routes.get("/jobs/{identity}", include_in_schema=False)
    def job_page(identity: str) -> HTMLResponse:
        job = site.jobs.get(identity)
        runs = []
        if job.subject:
            runs = [row for row in site.rows() if row.name.startswith(f"{job.subject}/")
                    or row.name.removesuffix(PARTIAL_SUFFIX) == job.subject]
        return site.html("job.html.jinja", page="jobs", job=job, runs=runs)

    @routes.post("/jobs/{identity}/stop", include_in_schema=False)
    def stop_form(identity: str) -> RedirectResponse:
        return RedirectResponse(f"/jobs/{site.jobs.stop(identity).id}", 303)

    return routes


def _page(site: Site, filled: dict[str, Any], problem: RequestError | None = None) -> HTMLResponse:
    filled = {"recipe": FIRST_RECIPE, "overrides": "", "smoke": False, "resume": False, **filled}
    try:
        fields = recipe_fields(recipe_argument(site.folder, filled["recipe"]))
    except RequestError as error:
        fields, problem = {}, problem or error
    runs = site.folder.runs()
    taken = {name.partition("/")[0] for name in (*map(site.folder.name, runs), *site.folder.phases())}

    def free(name: str) -> str:
        """The name, with the next free number if it is taken."""
        return next(each for each in numbered(name) if each not in taken)

    return site.html("start.html.jinja", 422 if problem else 200, page="start", jobs=site.jobs.all(), empty=not runs,
                     filled={"out": free("first-run"), **filled}, fields=fields, first=FIRST_SECTIONS,
                     targets=list(targets()), problem=problem, quickstart=free("quickstart"),
                     **recipe_choices(site.folder))


def _redirecting(site: Site, start: Callable[..., Job]) -> Callable[..., Response]:
    """The function of a form: it starts a command and redirects to the job's page."""
    @wraps(start)
    def form(**fields: Any) -> Response:
        try:
            # 303: the browser asks with GET, so that a reload does not start the command again.
            return RedirectResponse(f"/jobs/{start(**fields).id}", 303)
        except RequestError as error:
            if start.__name__ != "train":
                raise
            return _page(site, fields, error)

    return form
