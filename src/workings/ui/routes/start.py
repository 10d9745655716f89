"""`/start`: run the quickstart, train, evaluate, verify, replay: our own verbs, with the command shown."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, RedirectResponse

from workings.config.load import shipped_recipes
from workings.errors import RequestError
from workings.evidence.replay.unit import FOLDER
from workings.ui.jobs import Job
from workings.ui.requests import new_place, override_words, recipe_argument, recipe_files
from workings.ui.site import Site

Text = Annotated[str, Form()]
Flag = Annotated[bool, Form()]


def verbs(site: Site) -> dict[str, Callable[..., Job]]:
    """What can be started, by verb; parameters are the fields of its form."""

    def quickstart(out: Text = "quickstart") -> Job:
        """Run the quickstart into a new folder."""
        return site.jobs.start("quickstart", ["--out", new_place(site.folder, out)], subject=out)

    def train(recipe: Text, out: Text, overrides: Text = "", smoke: Flag = False, resume: Flag = False) -> Job:
        """Train a recipe into a new run of this folder, or go on with an unfinished one."""
        place = str(site.folder.inside(out)) if resume else new_place(site.folder, out)
        flags = (["--smoke"] if smoke else []) + (["--resume"] if resume else [])
        return site.jobs.start("train", [recipe_argument(site.folder, recipe), *override_words(overrides), "--out",
                                         place, *flags], subject=out)

    def evaluate(run: Text, items: Text, name: Text) -> Job:
        """Evaluate a run on items: a shipped name, or a file inside the folder."""
        place = site.folder.path(run)
        chosen = items if items == "eval" else str(site.folder.inside(items))
        if items.startswith("-") or (items != "eval" and not site.folder.inside(items).is_file()):
            raise RequestError(f"items {items}", "`eval`, or a file of items in this folder", "eval")
        out = new_place(site.folder, f"{run}/eval/{name}")
        return site.jobs.start("eval", [str(place), "--items", chosen, "--out", out], subject=run)

    def verify(run: Text) -> Job:
        """Verify a run."""
        place = site.folder.path(run)
        return site.jobs.start("verify", [str(place)], subject=run, stamp=site.verified.stamp(place))

    def replay(run: Text) -> Job:
        """Replay steps of a run; sealed in it under the next name that is free."""
        place = site.folder.path(run)
        # Among one name more than are taken, at least one is free.
        taken = {entry.name for entry in (place / FOLDER).glob("*")}
        name = next(name for number in range(1, len(taken) + 2) if (name := f"from-page-{number}") not in taken)
        return site.jobs.start("replay", [str(place), "--name", name], subject=run)

    return {"quickstart": quickstart, "train": train, "eval": evaluate, "verify": verify, "replay": replay}


def router(site: Site) -> APIRouter:
    """Routes that start a verb: a form that leads to its job, and a JSON twin that answers with it."""
    routes = APIRouter()

    @routes.get("/start", include_in_schema=False)
    def start_page() -> HTMLResponse:
        return site.html("start.html.jinja", page="start", jobs=site.jobs.all(), empty=not site.folder.runs(),
                         shipped=list(shipped_recipes()), written=recipe_files(site.folder))

    # One function for both: the form and its JSON twin check their fields by the same annotations.
    for verb, start in verbs(site).items():
        routes.add_api_route(f"/api/{verb}", start, methods=["POST"], name=verb)
        routes.add_api_route(f"/start/{verb}", _led_to_its_job(start), methods=["POST"], include_in_schema=False,
                             response_model=None)
    return routes


def _led_to_its_job(start: Callable[..., Job]) -> Callable[..., RedirectResponse]:
    @wraps(start)
    def form(**fields: Any) -> RedirectResponse:
        # 303 makes the browser ask with GET, so that reading the job's page again does not start it once more.
        return RedirectResponse(f"/jobs/{start(**fields).id}", 303)

    return form
