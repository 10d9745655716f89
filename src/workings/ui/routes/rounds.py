"""`/rounds/NAME`: an improvement, round by round."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from workings.reports.rounds_page import METHOD, accuracy_by_round
from workings.ui.rounds import Rounds, read_rounds
from workings.ui.site import Site


def shown(rounds: Rounds | None) -> dict[str, Any]:
    """Values of the templates for an improvement; None without one."""
    figure = accuracy_by_round(rounds.page) if rounds is not None and rounds.rounds else None
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
