"""Loss of each token of a row under the trained model, computed by `workings data surprise` from this page."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from workings.reports.surprise_page import ShadedToken, SurprisePage, shaded
from workings.ui.jobs import Job
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab
from workings.ui.tabs.ask import json_object

COMMAND = "data surprise"


class Surprising(BaseModel):
    """The newest answer of `workings data surprise --json` about a run."""

    state: str = Field(default="", description="Of the command; empty where no one asked")
    found: dict[str, Any] = Field(default_factory=dict, description="What it said; empty while it does not")
    problem: str = ""


def surprising(site: Site, name: str) -> Surprising:
    """Loss by token of the row that was asked about last."""
    jobs = site.jobs.about(COMMAND, name, 1)
    if not jobs:
        return Surprising()
    answers = [value for _, line in site.jobs.lines(jobs[0].id, 0) if (value := json_object(line))
               and "tokens" in value]
    return Surprising(state=jobs[0].state, found=answers[-1] if answers else {}, problem="" if answers
                      else _problem(jobs[0]))


def _problem(job: Job) -> str:
    return "" if job.state in ("running", "done") else job.log[-1500:] or f"exit code {job.code}"


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    answer = surprising(site, run.row.name)
    found = answer.found
    return {"surprise": answer, "shaded": shaded(SurprisePage(
        title="", sentence="", command="", tokens=[
            ShadedToken.from_loss(str(token["text"]),
                                  token.get("loss")) for token in found["tokens"]])) if found else ""}


TAB = Tab(key="surprise", title="Loss by token", position=58, shown=lambda run: run.has_weights,
          values=_values, answer=surprising)
