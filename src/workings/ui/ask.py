"""Questions to a run and its base model, each asked by a job that runs `workings ask`."""

import json
import secrets
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RequestError
from workings.evaluation.first_wrong_step import WrongPlace
from workings.ui.jobs import Job, json_object
from workings.ui.site import Site

LONGEST_QUESTION = 4_000
QUESTIONS_A_PAGE = 10


class AskForm(BaseModel):
    """Fields of the form that asks."""

    question: str
    max_new_tokens: int = Field(default=256, ge=1, le=4096)
    temperature: float = Field(default=0, ge=0, le=5)
    follow: str = Field(default="", description="Job of the question that this one follows in a conversation")


def start(site: Site, run: Path, form: AskForm) -> Job:
    """Start `workings ask`. Raises `RequestError` for an empty or too long question."""
    question = form.question.replace("\r\n", "\n").strip()
    if not question or len(question) > LONGEST_QUESTION or "\0" in question:
        raise RequestError(f"the question cannot be asked: it has {len(question):,} characters",
                           f"1 to {LONGEST_QUESTION:,}, without NUL", "")
    words = ["--base", "--pieces", "--max-new-tokens", str(form.max_new_tokens)]
    if form.temperature:
        # A new seed, so that the same question may get another answer.
        words += ["--temperature", f"{form.temperature:g}", "--seed", str(secrets.randbelow(2**31))]
    if form.follow:
        words += ["--history", json.dumps(conversation(site, form.follow))]
    # After `--` a question that begins with a dash is no option.
    return site.jobs.start("ask", [*words, "--", str(run), question], subject=site.folder.name(run))


def conversation(site: Site, job: str) -> list[dict[str, str]]:
    """The turns of a conversation, up to a job's answer of the trained model. Raises `RequestError` without one."""
    asked = read_question(site, site.jobs.get(job))
    if asked["trained"] is None:
        raise RequestError(f"question {job} has no answer", "an answered question to continue from", "")
    return [*asked["history"], {"role": "user", "content": asked["text"]},
            {"role": "assistant", "content": asked["trained"]["text"]}]


def read_question(site: Site, job: Job) -> dict[str, Any]:
    """A job's question with the answers so far; ``problem`` says why one is missing."""
    words = job.arguments
    given = dict(pairwise(words))  # option -> its value
    question: dict[str, Any] = {
        "job": job.id, "state": job.state, "text": words[-1] if words else "",
        "history": json.loads(given.get("--history", "[]")), "temperature": float(given.get("--temperature", 0)),
        "trained": None, "untrained": None, "problem": ""}
    for _, line in site.jobs.lines(job.id, 0):
        # Nearly all lines are pieces, which need not be parsed.
        value = json_object(line) if b'"completion"' in line else None
        if value and "completion" in value:
            question["trained"] = _answer(value)
            question["untrained"] = _answer(value["base"]) if "base" in value else None
    if job.state in ("failed", "stopped", "lost"):
        question["problem"] = job.log[-1500:] or f"exit code {job.code}"
    return question


def _answer(value: dict[str, Any]) -> dict[str, str]:
    step = WrongPlace(**value["wrong_step"]).text() if "wrong_step" in value else ""
    return {"text": value["completion"], "wrong_step": step, "finish_reason": value.get("finish_reason", "")}


def questions(site: Site, name: str) -> dict[str, Any]:
    """Questions to a run from this page, the newest first, with the answers so far."""
    return {"questions": [read_question(site, job) for job in site.jobs.about("ask", name, QUESTIONS_A_PAGE)]}
