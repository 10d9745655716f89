"""Asks a judge: an endpoint that speaks OpenAI's chat completions, at temperature 0. Each question is asked once."""

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from workings.errors import RequestError
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.scoring.model_judge import JUDGE, JUDGE_PREFIX, LONGEST_TEXT, judged, question_of, read_judge
from workings.scoring.scorers import scorer_version
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess

KEY = "WORKINGS_JUDGE_KEY"
"""Environment variable with the endpoint's key; it is sent as a bearer token and written nowhere."""
AT_A_TIME = 8
"""Number of concurrent questions."""
SECONDS = 600.0
"""Time limit of one reply, in seconds: a model of this machine answers one question after the other."""
PAUSES = (0, 1, 2, 4)
"""Seconds before each try."""
_PASSING = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Endpoint:
    """A judge ready to use."""

    url: str
    model: str
    max_tokens: int
    kept: dict[str, str] = field(default_factory=dict)
    """Question -> reply. A question is asked once, because the model might give another reply the second time."""

    def replies(self, questions: Sequence[str]) -> list[str]:
        """The reply to each question; "" for an empty question. Raises `RequestError` if the endpoint gives none."""
        new = list(dict.fromkeys(question for question in questions if question and question not in self.kept))
        pool = ThreadPoolExecutor(AT_A_TIME)
        try:
            # One by one, so that the replies before an error are kept.
            for question, reply in zip(new, pool.map(self._reply, new), strict=True):
                self.kept[question] = reply
        finally:
            pool.shutdown(cancel_futures=True)  # do not wait for the rest after an error
        return [self.kept.get(question, "") for question in questions]

    def _reply(self, question: str) -> str:
        body = json.dumps({"model": self.model, "messages": [{"role": "user", "content": question}],
                           "temperature": 0, "max_tokens": self.max_tokens}).encode()
        headers = {"content-type": "application/json"}
        if key := os.environ.get(KEY):
            headers["authorization"] = f"Bearer {key}"
        request = Request(f"{self.url.rstrip('/')}/chat/completions", body, headers)  # noqa: S310 - as below
        for seconds in PAUSES:
            time.sleep(seconds)
            try:
                with urlopen(request, timeout=SECONDS) as response:  # noqa: S310 - http and https alone, by `check_judge`
                    content = json.load(response)["choices"][0]["message"]["content"]
                if isinstance(content, str):
                    return content
                problem = "no text in its answer"
                break
            except HTTPError as error:
                problem = f"HTTP {error.code}: {error.read(300).decode('utf-8', 'replace')}"
                if error.code not in _PASSING:
                    break
            except (OSError, HTTPException) as error:
                problem = str(error)
            except (ValueError, LookupError, TypeError) as error:
                problem = f"no text in its answer: {error}"
                break
        raise RequestError(f"the judge at {self.url} gave no reply ({problem[:300]})",
                           f"an endpoint that answers {self.model} at /chat/completions at temperature 0",
                           f"a key belongs into {KEY}; a run is served by: workings serve RUN")


def checked_judge(path: Path) -> Endpoint:
    """The endpoint of a judge's file. Raises `RequestError` as `read_judge`."""
    judge = read_judge(path)
    return Endpoint(judge.url, judge.model, judge.max_tokens)


def judge_replies(endpoint: Endpoint, completions: Sequence[tuple[Item, str]]) -> list[str]:
    """The reply about each completion; empty for one that is too long."""
    return endpoint.replies([question_of(item, text) if len(text) <= LONGEST_TEXT else ""
                             for item, text in completions])


class JudgingProcess(ScoringProcess):
    """Scores by a judge; answer, form and steps are found as by the scorer `answer`.

    Raises `RequestError` as `read_judge`, and while it judges if the endpoint gives no reply.
    """

    def __init__(self, settings: ScoringSettings) -> None:
        super().__init__(ScoringSettings(**{**settings.for_scoring(), "scorer": "answer"}))
        self._endpoint = checked_judge(Path(settings.scorer.removeprefix(JUDGE_PREFIX)))

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """As `ScoringProcess.judge`, with the judge's scores."""
        found = super().judge(completions)
        replies = iter(judge_replies(self._endpoint, [
            (item, text) for (item, text, _), judgement in zip(completions, found, strict=True)
            if not judgement.error]))
        return [judgement if judgement.error else judged(judgement, item, text, next(replies))
                for (item, text, _), judgement in zip(completions, found, strict=True)]


def recorded_scorer(name: str) -> dict[str, Any]:
    """A scorer's facts for the record: name, version, and for a judge its prompt and its check."""
    if name.startswith(JUDGE_PREFIX):
        judge = read_judge(Path(name.removeprefix(JUDGE_PREFIX)))
        return {"name": JUDGE, "version": judge.version, "judge": judge.recorded()}
    recorded, version = scorer_version(name)
    return {"name": recorded, "version": version}


def scoring_by(settings: ScoringSettings) -> ScoringProcess:
    """The process that scores under these settings."""
    return JudgingProcess(settings) if settings.scorer.startswith(JUDGE_PREFIX) else ScoringProcess(settings)
