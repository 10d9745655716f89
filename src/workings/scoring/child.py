"""The process that scores: reads chunks of completions, answers one line each. It may be killed at any moment.

Scoring runs here so that no completion and no scorer can hang, exhaust or crash the evaluation. One request line
holds a whole chunk: the parent has written all of it before the first answer comes, so that neither side blocks.
"""

import json
import sys
import time
from typing import Any

from workings.errors import RequestError
from workings.scoring.child_side import ANSWER_TAG, AnswerStream, ignore_signals, limit_memory
from workings.scoring.items import item_from_json
from workings.scoring.judge import Judgement, judge
from workings.scoring.scorers import load_scorer
from workings.scoring.settings import ScoringSettings

FLUSH_SECONDS = 0.02
"""Longest time that an answer waits for others; writing each at once would double the cost of scoring."""


def main() -> None:
    """Serve requests until standard input ends. The first line is the settings."""
    ignore_signals()
    first = json.loads(sys.stdin.readline())
    answers = AnswerStream(first.pop(ANSWER_TAG))
    # JSON has no tuples.
    first["rules"] = tuple(first["rules"])
    settings = ScoringSettings(**first)
    # Before the scorer is loaded, because loading a file runs other people's code as well.
    limit_memory(settings.child_bytes)
    try:
        scorer = load_scorer(settings.scorer, settings.extraction_version)
    except RequestError as error:
        answers.write({"problem": error.given, "expected": error.expected})
        answers.flush()
        return
    except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
        answers.write({"problem": f"{settings.scorer} raised {type(error).__name__}: {error}"[:500]})
        answers.flush()
        return
    answers.write({"ready": scorer.version})
    answers.flush()
    for line in sys.stdin:
        flushed = time.monotonic()
        for request in json.loads(line):
            answers.write(_answer(request, scorer.score, settings))
            if time.monotonic() - flushed > FLUSH_SECONDS:
                answers.flush()
                flushed = time.monotonic()
        answers.flush()


def _answer(request: dict[str, Any], score: Any, settings: ScoringSettings) -> dict[str, Any]:
    try:
        item = item_from_json(request["item"])
        return judge(item, request["text"], score, settings, truncated=request["truncated"],
                     second=request["second"]).to_json()
    except TimeoutError as error:
        return Judgement(error=f"time limit: {error}"[:500]).to_json()
    # `SystemExit` as well: it would end the process, and cost the other completions of the chunk their time.
    except BaseException as error:  # noqa: BLE001 - scorers are other people's code; what they raise is the answer
        return Judgement(error=f"scorer raised {type(error).__name__}: {error}"[:500]).to_json()


if __name__ == "__main__":
    main()
