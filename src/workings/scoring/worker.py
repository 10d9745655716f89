"""The process that scores, so that no completion, scorer or reward function can hang, exhaust or crash the run.

    standard input     a pickle: the settings of a scorer or of rewards; then a pickle for each chunk of completions
    standard output    a line of JSON: ready, or the problem; then a line for each answer

The parent (`workings.scoring.worker_pool`) writes a whole chunk before it reads the first answer, so neither side
blocks. It may kill this process at any moment.
"""

import contextlib
import json
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.scoring.items import Item
from workings.scoring.judge import Judgement, judge
from workings.scoring.scorers import ScoreFunction, load_scorer
from workings.scoring.settings import ScoringSettings

MAX_PROBLEM = 500
"""Maximum characters of the description of a problem."""

Answer = dict[str, Any]
"""A line of JSON: a judgement's fields, the `values` of a reward, or the `problem`."""


def ignore_signals() -> None:
    """Ignore a scheduler's signals: the parent decides what they mean, and ends this process."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):  # not all on Windows
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def limit_memory(limit_bytes: int) -> None:
    """Limit the address space of this process, in bytes (Linux only)."""
    try:
        import resource
    except ImportError:  # Windows: only time is limited
        return
    # Linux ignores the limit on resident memory.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    with contextlib.suppress(ValueError, OSError):  # some systems (macOS) do not limit address space
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def serve(prepare: Callable[[Any], Callable[[Any], Iterator[Answer]]]) -> None:
    """Serve requests until standard input ends.

    ``prepare`` is called with the settings, the first thing that the parent sends, and returns the function that
    answers each request. It may raise `RequestError`.
    """
    ignore_signals()
    # A scorer must not read requests from standard input; its output goes to stderr.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    tag, job = pickle.load(requests)  # noqa: S301 - the parent alone writes here

    def send(answer: Answer) -> None:
        try:
            # The tag tells the parent that other code has not written this line.
            answers.write(f"{tag}{json.dumps(answer)}\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(0)  # not `sys.exit`, which would flush pending output again

    try:
        answers_to = prepare(job)
    except RequestError as error:
        send({"problem": error.given.removeprefix("scorer: "), "expected": error.expected, "try": error.try_next})
        return
    send({})
    while True:
        try:
            request = pickle.load(requests)  # noqa: S301 - as above
        except EOFError:
            return
        for answer in answers_to(request):
            send(answer)


def _load_scoring(settings: ScoringSettings) -> Callable[[Any], Iterator[Answer]]:
    """Load the scorer, and give the function that judges completions. Raises `RequestError`."""
    # Before the scorer is loaded, which runs other people's code.
    limit_memory(settings.child_bytes)
    with loading(settings.scorer, "a scorer that can be loaded"):
        score = load_scorer(settings.scorer)
    return lambda request: (_judged(*completion, score=score, settings=settings) for completion in request)


def _judged(item: Item, text: str, truncated: bool, *, score: ScoreFunction, settings: ScoringSettings) -> Answer:
    try:
        return asdict(judge(item, text, score, settings, truncated=truncated))
    except TimeoutError as error:
        return asdict(Judgement(error=f"time limit: {error}"[:MAX_PROBLEM]))
    # `SystemExit` as well, which would end the process.
    except BaseException as error:  # noqa: BLE001 - scorers are other people's code; what they raise is the answer
        return asdict(Judgement(error=f"scorer raised {type(error).__name__}: {error}"[:MAX_PROBLEM]))


@contextlib.contextmanager
def loading(name: str, expected: str) -> Iterator[None]:
    """Raise what the body raises as a `RequestError` that names what was loaded."""
    try:
        yield
    except RequestError:
        raise
    except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
        raise RequestError(f"{name}: {error_text(error)}", expected) from None


def error_text(error: BaseException, limit: str = "") -> str:
    """An error of other people's code, with the line of their file."""
    # Frozen modules of the standard library have names such as `<frozen runpy>`.
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__)
              if Path(frame.filename).parent != Path(__file__).parent and not frame.filename.startswith("<")]
    lines = [frame.lineno for frame in theirs if frame.filename == theirs[0].filename]
    where = f" ({Path(theirs[0].filename).name}, line {lines[-1]})" if theirs else ""
    return f"raised {type(error).__name__}: {error}"[:MAX_PROBLEM] + limit + where


if __name__ == "__main__":
    serve(_load_scoring)
