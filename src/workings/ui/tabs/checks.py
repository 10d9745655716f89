"""Result of `workings verify` for the run, and forms to verify and replay it."""

from typing import Any

from pydantic import BaseModel

from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab
from workings.ui.verification_cache import Verified


class Checks(BaseModel):
    """The result of `workings verify`, if available."""

    run: str
    verified: Verified | None
    command: str


def run_checks(site: Site, name: str) -> Checks:
    """The cached verdict of `workings verify`, valid for the run as it is now."""
    return Checks(run=name, verified=site.verified.get(site.folder.path(name)),
                  command=f"workings verify {site.typed(name)}")


def values(site: Site, run: OpenedRun, query: NoQuery) -> dict[str, Any]:
    """The cached verdict, and the running job that verifies the run."""
    return {"verified": site.verified.get(run.path),
            # Show the running verification, so that a second click does not start another.
            "job": next((job for job in site.jobs.all() if job.verb == "verify" and job.subject == run.name
                         and job.state == "running"), None)}


TAB = Tab(key="checks", title="Checks", position=70, group="Record", values=values, answer=run_checks)
