"""`/rounds/NAME`: an improvement (`workings improve`), round by round, read from its sealed units."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.paired import difference_text
from workings.evaluation.scorecard import recorded_interval
from workings.evaluation.unit import read_scorecard
from workings.record.layout import EVALUATION_SUMMARY, MANIFEST, SEAL, SELECTION
from workings.record.manifest import DRAWN_FROM
from workings.reports.rounds import METHOD, RoundRow, accuracy_by_round
from workings.ui.comparisons import compared
from workings.ui.folder import Folder
from workings.ui.site import Site

REQUEST, RESULT = "improve.json", "rounds.json"
"""Files of `workings improve` in its folder, next to the runs: the request and the result."""
RUNS, SAMPLES = "runs", "samples"


class RoundShown(BaseModel):
    """One model of an improvement, and where its run and its samples are."""

    values: RoundRow
    run: str
    samples: str = Field(default="", description="The samples that it learned from, from the previous model")


class Rounds(BaseModel):
    """An improvement."""

    name: str
    asked: int = Field(description="Rounds that were asked for")
    finished: bool
    sentence: str = Field(description="The result; empty while it is unfinished")
    verdict: str = Field(description="Of the last round compared with the start")
    rounds: list[RoundShown]

    @property
    def last(self) -> str:
        """The run of the last round; empty while there is only the start."""
        return self.rounds[-1].run if len(self.rounds) > 1 else ""


class Improvement(BaseModel):
    """An improvement in the list."""

    name: str
    sentence: str
    problem: str = ""


def improvements(folder: Folder) -> list[Path]:
    """Folders of improvements that have a run, by name."""
    # By their runs, which are known already, without another search.
    folders = {run.parent.parent for run in folder.runs() if run.parent.name == RUNS}
    return sorted(path for path in folders if path.is_relative_to(folder.root) and (path / REQUEST).is_file())


def listed_improvements(folder: Folder) -> list[Improvement]:
    """Each with its result; an unreadable one says so and hides no other."""
    rows = []
    for path in improvements(folder):
        try:
            rows.append(Improvement(name=folder.name(path), sentence=_said(folder, path).get("sentence", "")))
        except RecordError as error:
            rows.append(Improvement(name=folder.name(path), sentence="", problem=str(error)))
    return rows


def read_rounds(site: Site, name: str) -> Rounds:
    """All rounds that were made so far.

    Raises:
        RequestError: there is no such improvement.
        RecordError: a part of it is damaged.
    """
    folder = site.folder
    improvement = folder.inside(name)
    if improvement not in {path.resolve() for path in improvements(folder)}:
        raise RequestError(f"improvement {name}", "a folder that `workings improve --out` wrote",
                           "open the list of runs")
    request, result = folder.object(improvement / REQUEST), _said(folder, improvement)
    # Round 0 is the run before the first round.
    runs = [run for number in range(int(request["rounds"]) + 1)
            if _evaluated(run := improvement / RUNS / f"round_{number}")]
    rounds = [_round(site, "start" if not number else str(number), run, runs[number - 1] if number else None)
              for number, run in enumerate(runs)]
    last = compared(site.folder, runs[0], runs[-1]) if len(runs) > 1 else None
    return Rounds(name=folder.name(improvement), asked=int(request["rounds"]), finished=bool(result), rounds=rounds,
                  sentence=str(result.get("sentence", "")), verdict=last.verdict if last else "")


def rounds_here(site: Site) -> Rounds | None:
    """Rounds of the page's own folder; None if it is not an improvement, or a damaged one."""
    if site.folder.root not in improvements(site.folder):
        return None
    try:
        return read_rounds(site, ".")
    # The list of runs is shown in any case.
    except (RecordError, RequestError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _said(folder: Folder, path: Path) -> dict[str, Any]:
    """The result as a sentence; empty until it exists."""
    return folder.object(path / RESULT) if (path / RESULT).is_file() else {}


def _evaluated(run: Path) -> bool:
    return (run / SEAL).is_file() and any(run.glob(f"eval/*/{EVALUATION_SUMMARY}"))


def _round(site: Site, name: str, run: Path, before: Path | None) -> RoundShown:
    folder, overall, counts = site.folder, read_scorecard(run)["overall"], {}
    low, high = recorded_interval(overall)
    difference = compared(folder, before, run).difference if before is not None else None
    # Samples are next to the runs, named after the round that learns from them.
    unit = run.parent.parent / SAMPLES / f"for_round_{name}"
    if is_drawn := (unit / SEAL).is_file():
        drawn_from = folder.object(run / MANIFEST).get("facts", {}).get(DRAWN_FROM, {})
        counts = folder.object(unit / SELECTION)["counts"] | {"learned": sum(drawn_from.values())}
    return RoundShown(run=folder.name(run), samples=folder.name(unit) if is_drawn else "", values=RoundRow(
        name=name, accuracy=overall["mean"], low=low, high=high,
        change=difference_text(difference, difference.p_value) if difference else "",
        **{key: counts.get(key, -1) for key in ("learned", "never", "sometimes", "always")}))


def shown(rounds: Rounds | None) -> dict[str, Any]:
    """Values of the templates for an improvement; None without one."""
    figure = accuracy_by_round([row.values for row in rounds.rounds]) if rounds is not None and rounds.rounds else None
    return {"rounds": rounds, "figure": figure, "method": METHOD}


def router(site: Site) -> APIRouter:
    """Routes of an improvement."""
    routes = APIRouter()

    @routes.get("/api/rounds/{name:path}")
    def rounds_json(name: str) -> Rounds:
        """All rounds of an improvement that were made so far."""
        return read_rounds(site, name)

    @routes.get("/rounds/{name:path}", include_in_schema=False)
    def rounds_page(name: str) -> HTMLResponse:
        return site.html("rounds.html.jinja", page="runs", **shown(read_rounds(site, name)))

    return routes
