"""`/jobs`: commands that the page started, live."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from workings.record.layout import PARTIAL_SUFFIX
from workings.ui.jobs import Job, place_of
from workings.ui.site import Site
from workings.ui.tabs.ask import json_object

PAUSE_SECONDS = 0.1
"""Seconds between two polls: shorter than people notice, and a fast model writes several tokens meanwhile."""


def router(site: Site) -> APIRouter:
    """Routes of the jobs."""
    routes = APIRouter()

    @routes.get("/api/jobs")
    def jobs_json() -> list[Job]:
        """Commands that this page started, the newest first."""
        return site.jobs.all()

    @routes.get("/api/jobs/{identity}")
    def job_json(identity: str) -> Job:
        """One command, with the end of its output and its answer."""
        return site.jobs.get(identity)

    @routes.get("/api/jobs/{identity}/pieces")
    def pieces(identity: str, last_event_id: Annotated[int, Header(ge=0)] = 0) -> StreamingResponse:
        """Text that models write to a question, as server-sent events; `end` after the end of the command."""
        site.jobs.is_running(identity)  # raise for an unknown one before the first event
        return StreamingResponse(piece_events(site, identity, last_event_id), media_type="text/event-stream")

    @routes.post("/api/jobs/{identity}/stop")
    def stop_json(identity: str) -> Job:
        """Ask it to stop, as Ctrl-C would; training saves a checkpoint and seals what it has."""
        return site.jobs.stop(identity)

    @routes.get("/jobs", include_in_schema=False)
    def jobs_page() -> HTMLResponse:
        return site.html("jobs.html.jinja", page="jobs", jobs=site.jobs.all())

    @routes.get("/jobs/{identity}", include_in_schema=False)
    def job_page(identity: str) -> HTMLResponse:
        job = site.jobs.get(identity)
        # An unfinished run has a suffix that the job's subject lacks.
        runs = [row for row in site.rows() if job.subject and (row.name.removesuffix(PARTIAL_SUFFIX) == job.subject
                                                               or row.name.startswith(f"{job.subject}/"))]
        return site.html("job.html.jinja", page="jobs", job=job, runs=runs)

    @routes.post("/jobs/{identity}/stop", include_in_schema=False)
    def stop_form(identity: str) -> RedirectResponse:
        return RedirectResponse(place_of(site.jobs.stop(identity)), 303)

    return routes


async def piece_events(site: Site, identity: str, place: int) -> AsyncIterator[str]:
    """A server-sent event for each piece that `workings ask --pieces` wrote, and `end` when it has ended.

    An event's id is its offset in the command's output: a browser that reconnects sends the last one as ``place``.
    """
    while not site.stopping.is_set():
        # Ask before reading, so that nothing written in between is lost.
        running = site.jobs.is_running(identity)
        for end, line in site.jobs.lines(identity, place):
            place = end
            if "piece" in (value := json_object(line) or {}):
                yield f"id: {end}\ndata: {json.dumps({key: value[key] for key in ('model', 'piece')})}\n\n"
        if not running:
            yield f"id: {place}\nevent: end\ndata: {{}}\n\n"
            return
        await asyncio.sleep(PAUSE_SECONDS)
