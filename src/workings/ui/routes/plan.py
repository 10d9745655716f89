"""`/plan`: plans of a recipe on other machines; `/fits`: which model fits on which machine."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from workings.config.load import shipped_recipes
from workings.hardware.catalog import target_in_name, targets
from workings.models.shapes import catalog as published
from workings.planning.matrix import BASE_RECIPE, METHODS, cell_overrides, matrix_cells
from workings.ui.jobs import Job, ask
from workings.ui.memory_bars import stacked_bars
from workings.ui.requests import FIRST_RECIPE, override_words, recipe_argument, recipe_choices, target_names
from workings.ui.site import Site

Method = Literal["full, Adafactor", "full, AdamW", "LoRA", "QLoRA"]
Length = Annotated[int, Query(ge=1, le=1_000_000)]
KEYS_OF_THE_FORM = ("data.max_length", "batch.micro_batch", "batch.accumulation", "optimizer.name", "method.name")
"""Keys that the form names as often changed."""
ROW_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Row lengths, in tokens, to choose from on `/fits`."""
PLATFORM_TITLES = {"tpu": "Google TPU", "gpu": "NVIDIA card", "cpu": "this machine"}


def catalog() -> list[dict[str, Any]]:
    """Machines that can be planned for."""
    return [{"name": name, "maker": PLATFORM_TITLES[target.platform], "devices": target.devices,
             "memory_bytes": target.memory_bytes} for name, target in targets().items()]


def what_fits(method: str, length: int) -> dict[str, Any]:
    """Whether a training step with one row per device fits, by formula, for each model and machine; null if unknown."""
    machines = [target for target in targets().values() if target.platform != "cpu"]
    models: dict[str, list[dict[str, Any]]] = {}
    for cell in matrix_cells(list(published()), method, length, machines):
        shown = {"target": cell.target, "fits": None, "marginal": False, "peak_bytes": 0, "limit_bytes": 0,
                 "source": "", "why": cell.why, "plan": ""}
        if cell.verdict is not None:
            overrides = cell_overrides(cell.model, method, length, targets()[cell.target])
            form = {"recipe": BASE_RECIPE, "target": cell.target, "overrides": "\n".join(overrides)}
            shown |= {"fits": cell.verdict.fits, "marginal": cell.verdict.marginal, "why": "",
                      "peak_bytes": cell.verdict.peak_bytes, "limit_bytes": cell.verdict.limit_bytes,
                      "source": cell.verdict.source, "plan": f"/plan?{urlencode(form)}"}
        models.setdefault(cell.model, []).append(shown)
    return {"method": method, "length": length, "models": models,
            "machines": [row for row in catalog() if row["maker"] != PLATFORM_TITLES["cpu"]]}


def bar(job: Job) -> Markup | None:
    """A bar of the parts of a finished plan; None if it has none."""
    plan = job.answer or {}
    parts = [(part["name"], part["size_bytes"]) for part in plan.get("parts", []) if part["size_bytes"] > 0]
    if not parts:
        return None
    return stacked_bars([(f"{plan['target']}, {plan['devices']} devices", parts)], plan["limit_bytes"])


def router(site: Site) -> APIRouter:
    """Routes of the planner."""
    routes = APIRouter()

    @routes.get("/api/formula")
    def formula_json(recipe: str, target: str, overrides: str = "") -> dict[str, Any]:
        """Memory of a recipe on a machine by formula, in bytes per device; nothing is compiled."""
        words = [recipe_argument(site.folder, recipe), *override_words(overrides), "--on", *target_names([target])]
        return ask(["plan", *words, "--formula"], site.folder.root)["estimates"][0]

    @routes.get("/api/fits")
    def fits_json(method: Method = "LoRA", length: Length = 2048) -> dict[str, Any]:
        """Every published model on every machine, for one method and row length."""
        return what_fits(method, length)

    @routes.get("/fits", include_in_schema=False)
    def fits_page(method: Method = "LoRA", length: Length = 2048, machines: str = "") -> HTMLResponse:
        found, words = what_fits(method, length), machines.replace(",", " ").split()
        named = [row for row in found["machines"] if any(word.casefold() in row["name"] for word in words)]
        return site.html("fits.html.jinja", page="fits", methods=list(METHODS), lengths=ROW_LENGTHS, machines=machines,
                         found=found | {"machines": named or found["machines"]}, unknown=bool(words) and not named)

    @routes.get("/plan", include_in_schema=False)
    def plan_page(recipe: str = "", target: Annotated[list[str] | None, Query()] = None, overrides: str = "",
                  job: Annotated[list[str] | None, Query()] = None) -> HTMLResponse:
        jobs = [site.jobs.get(name) for name in job or []]
        return site.html("plan.html.jinja", 200, page="plan", recipe=recipe, first=FIRST_RECIPE,
                         chosen=target or [], overrides=overrides,
                         jobs=[(each, bar(each)) for each in jobs], catalog=catalog(), quick=KEYS_OF_THE_FORM,
                         waiting=any(each.state == "running" for each in jobs), **recipe_choices(site.folder),
                         machines={name: target_in_name(name) for name in shipped_recipes()})

    @routes.post("/plan", include_in_schema=False)
    def plan_form(recipe: Annotated[str, Form()], target: Annotated[list[str] | None, Form()] = None,
                  overrides: Annotated[str, Form()] = "") -> RedirectResponse:
        words = [recipe_argument(site.folder, recipe), *override_words(overrides)]
        jobs = [site.jobs.start("plan", [*words, "--on", name], subject=f"{recipe} on {name}")
                for name in target_names(target or [])]
        # The address of the answer names the jobs, so that a reload starts nothing.
        query = [("recipe", recipe), *(("target", name) for name in target or []), ("overrides", overrides),
                 *(("job", job.id) for job in jobs)]
        return RedirectResponse("/plan?" + urlencode(query), 303)

    return routes
