"""`/plan`: a recipe on machines that are not here, as bars against their limits."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from pydantic import BaseModel, Field

from workings.config.load import shipped_recipes
from workings.hardware.catalog import target_in_name, targets
from workings.models.shapes import catalog as published
from workings.planning.matrix import BASE_RECIPE, METHODS, cell_overrides, matrix_cells
from workings.ui.jobs import Job, ask
from workings.ui.memory_bars import stacked_bars
from workings.ui.requests import FIRST_RECIPE, override_words, recipe_argument, recipe_files, target_names
from workings.ui.site import Site

Method = Literal["full, Adafactor", "full, AdamW", "LoRA", "QLoRA"]
KEYS_OF_THE_FORM = ("data.max_length", "batch.micro_batch", "batch.accumulation", "optimizer.name", "method.name")
"""Keys that the form lists; any other goes into the overrides."""


ROW_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Row lengths, in tokens, for the table of what fits."""
PLATFORM_TITLES = {"tpu": "Google TPU", "gpu": "NVIDIA card", "cpu": "this machine"}


class TargetRow(BaseModel):
    """A machine of the catalog."""

    name: str
    title: str
    maker: str
    devices: int
    memory_bytes: int


class FitsCell(BaseModel):
    """Whether one model's step fits one machine. Bytes are per device."""

    target: str
    fits: bool | None = Field(default=None, description="Absent if it cannot be answered; `why` gives the reason")
    marginal: bool = False
    peak_bytes: int = 0
    limit_bytes: int = 0
    source: str = Field(default="", description="estimated by formula")
    why: str = ""
    plan: str = Field(default="", description="Address of the form that compiles it")


class Fits(BaseModel):
    """A training step with one sequence per device: models by machines."""

    method: str
    length: int
    machines: list[TargetRow]
    models: dict[str, list[FitsCell]]


def catalog() -> list[TargetRow]:
    """Machines that can be planned for."""
    return [TargetRow(name=name, title=getattr(target, "title", name), devices=target.devices,
                      maker=PLATFORM_TITLES[target.platform], memory_bytes=target.memory_bytes)
            for name, target in targets().items()]


def what_fits(method: str, length: int) -> Fits:
    """Estimates by formula of a training step."""
    # Without the CPU: its memory depends on the viewer's machine.
    machines = [target for target in targets().values() if target.platform != "cpu"]
    models: dict[str, list[FitsCell]] = {}
    for cell in matrix_cells(list(published()), method, length, machines):
        target = targets()[cell.target]
        shown = FitsCell(target=cell.target, why=cell.why)
        if (verdict := cell.verdict) is not None:
            plan = {"recipe": BASE_RECIPE, "target": cell.target,
                    "overrides": "\n".join(cell_overrides(cell.model, method, length, target))}
            shown = FitsCell(target=cell.target, fits=verdict.fits, marginal=verdict.marginal,
                             peak_bytes=verdict.peak_bytes,
                             limit_bytes=verdict.limit_bytes, source=verdict.source, plan="/plan?" + urlencode(plan))
        models.setdefault(cell.model, []).append(shown)
    return Fits(method=method, length=length, models=models,
                machines=[row for row in catalog() if row.maker != PLATFORM_TITLES["cpu"]])


class Formula(BaseModel):
    """Estimate by formula of a recipe on a machine. Bytes are per device."""

    recipe: str
    target: str
    program: str = Field(description="The largest part")
    peak_bytes: int
    limit_bytes: int


def formula(site: Site, recipe: str, target: str, overrides: str = "") -> Formula:
    """Memory of a recipe on a machine by formula; nothing is compiled."""
    words = [recipe_argument(site.folder, recipe), *override_words(overrides), "--on", *target_names([target])]
    return Formula(**ask(["plan", *words, "--formula"], site.folder.root)["estimates"][0])


def started(site: Site, recipe: str, chosen: list[str], overrides: list[str]) -> list[Job]:
    """One `workings plan` per target."""
    recipe_path = recipe_argument(site.folder, recipe)
    # One child per target: they run at the same time, and a failure hides no other.
    return [site.jobs.start("plan", [recipe_path, *overrides, "--on", target], subject=f"{recipe} on {target}")
            for target in target_names(chosen)]


def bars(jobs: list[Job]) -> list[Markup | None]:
    """The parts of each finished plan against its target's limit, all on one scale; None without any."""
    answers: list[dict[str, Any]] = [job.answer or {} for job in jobs]
    parts = [[(str(part["name"]), int(part["size_bytes"])) for part in answer.get("parts", [])
              if int(part["size_bytes"]) > 0] for answer in answers]
    # One scale for all bars, so that machines can be compared.
    longest = max((max(int(answer["limit_bytes"]), sum(size for _, size in parts_of_plan))
                   for answer, parts_of_plan in zip(answers, parts, strict=True) if "limit_bytes" in answer), default=0)
    return [stacked_bars([(f"{answer.get('target', '')}, {answer['devices']} devices", parts_of_plan)],
                         answer["limit_bytes"], longest) if "limit_bytes" in answer and parts_of_plan else None
            for answer, parts_of_plan in zip(answers, parts, strict=True)]


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
        """Start a plan per target; the jobs have the answers."""
        return started(site, recipe, target, override_words(overrides))

    @routes.get("/api/formula")
    def formula_json(recipe: str, target: str, overrides: str = "") -> Formula:
        """Memory of a recipe on a machine by formula; nothing is compiled."""
        return formula(site, recipe, target, overrides)

    @routes.get("/api/fits")
    def fits_json(method: Method = "LoRA", length: Annotated[int, Query(ge=1, le=1_000_000)] = 2048) -> Fits:
        """Every published model on every machine, for one method and row length."""
        return what_fits(method, length)

    @routes.get("/fits", include_in_schema=False)
    def fits_page(method: Method = "LoRA", length: Annotated[int, Query(ge=1, le=1_000_000)] = 2048, machines: str = "",
                  ) -> HTMLResponse:
        found, words = what_fits(method, length), machines.replace(",", " ").split()
        named = [row for row in found.machines if any(word.casefold() in row.name for word in words)]
        return site.html("fits.html.jinja", page="fits", methods=list(METHODS), lengths=ROW_LENGTHS, machines=machines,
                         found=found.model_copy(update={"machines": named}) if named else found,
                         unknown=bool(words) and not named)

    @routes.get("/plan", include_in_schema=False)
    def plan_page(recipe: str = "", target: Annotated[list[str] | None, Query()] = None, overrides: str = "",
                  job: Annotated[list[str] | None, Query()] = None) -> HTMLResponse:
        jobs = [site.jobs.get(name) for name in job or []]
        return site.html("plan.html.jinja", page="plan", recipe=recipe, first=FIRST_RECIPE,
                         chosen=target or [], overrides=overrides,
                         jobs=list(zip(jobs, bars(jobs), strict=True)), catalog=catalog(), quick=KEYS_OF_THE_FORM,
                         waiting=any(each.state == "running" for each in jobs),
                         shipped=list(shipped_recipes()), written=recipe_files(site.folder),
                         machines={name: target_in_name(name) for name in shipped_recipes()})

    @routes.post("/plan", include_in_schema=False)
    def plan_form(recipe: Annotated[str, Form()], target: Annotated[list[str] | None, Form()] = None,
                  overrides: Annotated[str, Form()] = "") -> RedirectResponse:
        # Redirect to an address that names the jobs, so that a reload starts nothing.
        jobs = started(site, recipe, target or [], override_words(overrides))
        query = [("recipe", recipe), *(("target", name) for name in target or []), ("overrides", overrides),
                 *(("job", job.id) for job in jobs)]
        # 303: the browser follows with GET.
        return RedirectResponse("/plan?" + urlencode(query), 303)

    return routes

