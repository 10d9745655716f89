"""Ask a run a question, beside the model that it began with."""

from collections.abc import Mapping
from typing import Any

from workings.ui.questions import QUESTIONS_A_PAGE, Questions, read_question
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab


def questions(site: Site, name: str) -> Questions:
    """Questions that were put to a run from this page, the newest first, with the answers that are there."""
    return Questions(questions=[read_question(job, (line for _, line in site.jobs.lines(job.id, 0)))
                            for job in site.jobs.about("ask", name, QUESTIONS_A_PAGE)])


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    return {"asked": questions(site, run.row.name).questions}


TAB = Tab(key="ask", title="Ask", position=57, shown=lambda run: run.has_weights, values=_values, answer=questions)
