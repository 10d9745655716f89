"""Ask a run and its base model a question."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RequestError
from workings.ui.jobs import Job
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab

LONGEST_QUESTION = 4_000
QUESTIONS_A_PAGE = 10
"""Questions on a page."""


class AskedAnswer(BaseModel):
    """The answer of one model."""

    text: str
    finish_reason: str
    wrong_step: str = Field(default="", description="The first wrong equation, in words")


class AskedQuestion(BaseModel):
    """One question to a run, and to the model that it began with."""

    job: str
    state: str
    text: str
    trained: AskedAnswer | None = None
    untrained: AskedAnswer | None = None
    problem: str = Field(default="", description="Why an answer is missing, from the command's output")


class Questions(BaseModel):
    """Questions of a run, the newest first."""

    questions: list[AskedQuestion]


def arguments(run: Path, question: str, max_new_tokens: int) -> list[str]:
    """Arguments of `workings ask`. Raises `RequestError` for an empty or endless question."""
    if not question.strip() or len(question) > LONGEST_QUESTION or "\0" in question:
        raise RequestError(f"a question of {len(question):,} characters", f"1 to {LONGEST_QUESTION:,}", "")
    # After `--` nothing is an option, even a question that begins with a dash.
    return ["--base", "--pieces", "--max-new-tokens", str(max_new_tokens), "--", str(run), question]


def read_question(job: Job, lines: Iterable[bytes]) -> AskedQuestion:
    """A question from its command, with the answers so far.

    Args:
        job: the command.
        lines: all of its output, because thousands of pieces may follow an answer.
    """
    question = AskedQuestion(job=job.id, state=job.state, text=job.arguments[-1] if job.arguments else "")
    for line in lines:
        # Search before parsing, because nearly all lines are pieces.
        value = json_object(line) if b'"completion"' in line else None
        if value and "completion" in value:
            question.trained = _answer(value)
            question.untrained = _answer(value["base"]) if "base" in value else None
    if job.state in ("failed", "stopped", "lost"):
        question.problem = job.log[-1500:] or f"exit code {job.code}"
    return question


def _answer(value: dict[str, Any]) -> AskedAnswer:
    step = value.get("wrong_step") or {}
    words = f"line {step['line']} of {step['lines']}: {step['written']} (correct: {step['expected']})" if step else ""
    return AskedAnswer(text=str(value["completion"]), wrong_step=words,
                       finish_reason=str(value.get("finish_reason", "")))


def json_object(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if it is not an object."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def questions(site: Site, name: str) -> Questions:
    """Questions asked from this page, newest first, with the answers so far."""
    return Questions(questions=[read_question(job, (line for _, line in site.jobs.lines(job.id, 0)))
                            for job in site.jobs.about("ask", name, QUESTIONS_A_PAGE)])


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    return {"asked": questions(site, run.row.name).questions}


TAB = Tab(key="ask", title="Ask", position=57, shown=lambda run: run.has_weights, values=_values, answer=questions)
