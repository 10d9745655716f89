"""The process that scores: reads requests from standard input and writes one line for each answer.

Scoring runs here so that no completion, scorer or reward function can hang, exhaust or crash the run; the process may
be killed at any moment. The first line is the settings: those of a scorer, or those of rewards. One request line holds
a whole chunk: the parent has written all of it before the first answer comes, so that neither side blocks.

An audit hook refuses a reward function what Python reports before it happens: connections, look-ups of names, and the
start of other programs, which would be free of the hook. It does not stop what raises no audit event: `ctypes`,
compiled extensions that call the system themselves, and `multiprocessing` with its method `spawn`. Files may be read
and written. It is a guard against mistakes; code that is not trusted belongs into a container.
"""

import contextlib
import inspect
import json
import math
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any, TextIO

from workings.config.rewards import FileReward, JudgeReward, RewardConfig, reward_name
from workings.errors import RequestError
from workings.scoring.items import UNSPECIFIED, Item, item_from_json
from workings.scoring.judge import Judgement, judge
from workings.scoring.rewards import (
    CompletionToReward,
    RewardSettings,
    sample_from_json,
    settings_from_json,
    shipped_reward,
)
from workings.scoring.scorers import SCORERS, ScoreFunction, load_scorer
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ANSWER_TAG, stopping_signals

FLUSH_SECONDS = 0.02
"""Longest time that an answer waits for others; writing each at once would double the cost of scoring."""
REFUSED = {
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                     "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"), "no network"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
                     "pty.spawn", "os.startfile"), "no other programs"),
}
"""Audit events that end in ``PermissionError``, and what a reward function does not have."""
MAX_PROBLEM = 500
"""Longest description of what went wrong, in characters."""

Compute = Callable[[list[CompletionToReward]], object]


class AnswerStream:
    """Where answers are written, one line each. A scorer that prints must not break the protocol: it prints to stderr.

    Args:
        tag: begins each line. By it the reader knows an answer from what other code wrote to the same descriptor.
    """

    def __init__(self, tag: str) -> None:
        self._stream, self._tag = os.fdopen(os.dup(1), "w", encoding="ascii"), tag
        os.dup2(2, 1)

    def write(self, answer: dict[str, Any]) -> None:
        """Add an answer; it may wait for others until `flush`."""
        with _exit_with_parent():
            self._stream.write(json.dumps([self._tag, answer]) + "\n")

    def send(self, answer: dict[str, Any]) -> None:
        """Write an answer at once."""
        self.write(answer)
        self.flush()

    def flush(self) -> None:
        """Send what is waiting."""
        with _exit_with_parent():
            self._stream.flush()


@contextmanager
def _exit_with_parent() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        os._exit(0)  # not `sys.exit`, which would write what is waiting once more


def ignore_signals() -> None:
    """Leave signals to the parent: it ends this process when it has decided what becomes of the completions here."""
    for number in stopping_signals():
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        # What `Worker` had held back; a program that is started here finds none blocked.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping_signals())


def request_stream() -> TextIO:
    """Where requests are read. A scorer that reads standard input must not eat them: it finds an empty one."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests


def limit_memory(limit_bytes: int) -> None:
    """Limit the address space of this process, in bytes, where the system can (Linux); elsewhere nothing happens."""
    try:
        import resource
    except ImportError:  # Windows: time is limited there, memory is not
        return
    # Address space is what can be limited: Linux ignores the limit on resident memory.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    with contextlib.suppress(ValueError, OSError):  # some systems (macOS) do not limit address space
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def main() -> None:
    """Serve requests until standard input ends."""
    ignore_signals()
    requests = request_stream()
    first = json.loads(requests.readline())
    answers = AnswerStream(first.pop(ANSWER_TAG))
    (_serve_rewards if "versions" in first else _serve_scores)(first, requests, answers)


def _serve_scores(first: dict[str, Any], requests: TextIO, answers: AnswerStream) -> None:
    settings = ScoringSettings(**{**first, "rules": tuple(first["rules"])})  # JSON has no tuples
    # Before the scorer is loaded, because loading a file runs other people's code as well.
    limit_memory(settings.child_bytes)
    try:
        scorer = load_scorer(settings.scorer)
    except RequestError as error:
        answers.send({"problem": error.given, "expected": error.expected})
        return
    except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
        answers.send({"problem": f"{settings.scorer} raised {type(error).__name__}: {error}"[:MAX_PROBLEM]})
        return
    answers.send({"ready": scorer.version})
    for line in requests:
        flushed = time.monotonic()
        for request in json.loads(line):
            answers.write(_judged(request, scorer.score, settings))
            if time.monotonic() - flushed > FLUSH_SECONDS:
                answers.flush()
                flushed = time.monotonic()
        answers.flush()


def _judged(request: dict[str, Any], score: ScoreFunction, settings: ScoringSettings) -> dict[str, Any]:
    try:
        return judge(item_from_json(request["item"]), request["text"], score, settings,
                     truncated=request["truncated"], second=request["second"]).to_json()
    except TimeoutError as error:
        return Judgement(error=f"time limit: {error}"[:MAX_PROBLEM]).to_json()
    # `SystemExit` as well: it would end the process, and cost the other completions of the chunk their time.
    except BaseException as error:  # noqa: BLE001 - scorers are other people's code; what they raise is the answer
        return Judgement(error=f"scorer raised {type(error).__name__}: {error}"[:MAX_PROBLEM]).to_json()


def _serve_rewards(first: dict[str, Any], requests: TextIO, answers: AnswerStream) -> None:
    settings = settings_from_json(first["settings"])
    limit_memory(int(settings.memory_gib * 1024**3))
    sys.addaudithook(refuse)
    computed: list[Compute] = []
    for reward, version in zip(settings.rewards, first["versions"], strict=True):
        try:
            computed.append(_load(reward, version, settings))
        except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
            problem = error.given if isinstance(error, RequestError) else _raised(error, settings)
            answers.send({"reward": reward_name(reward), "problem": problem})
            return
    answers.send({"ready": len(computed)})
    for line in requests:
        for compute in computed:
            answer = _answer(compute, line, settings)
            answers.send(answer)
            if "problem" in answer:
                break


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook."""
    if event in REFUSED:
        # An OSError, because libraries that can do without expect one.
        raise PermissionError(f"a reward function has {REFUSED[event]} ({event})")


def _load(reward: RewardConfig, version: str, settings: RewardSettings) -> Compute:
    if isinstance(reward, JudgeReward):
        return lambda samples: [0.0] * len(samples)  # the parent asks it, for there is no network here
    if not isinstance(reward, FileReward):
        if reward.scorer in SCORERS:
            load_scorer(reward.scorer)  # imports its library now, so that no call has to
        return lambda samples: [shipped_reward(reward, sample, settings) for sample in samples]
    path = settings.path(reward)
    # Taken before the file runs, because code can change the file that it is in.
    if settings.version(reward) != version:
        raise RequestError(f"{path} has changed since its digest was recorded", "the file that was recorded")
    function = runpy.run_path(str(path)).get(reward.function)
    if not callable(function):
        raise RequestError(f"no function {reward.function} in {path}", "a function of that name")
    return lambda samples: _called(function, {
        "prompts": [sample.item.prompt for sample in samples],
        "completions": [sample.text for sample in samples], **columns(samples)})


def _called(function: Callable[..., object], given: dict[str, list[Any]]) -> object:
    """What a function gives back. Raises ``TypeError`` with what there is, where it asks for something else."""
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        raise TypeError(f"{error}; it is called with {', '.join(given)}") from None
    except ValueError:  # compiled functions may have no signature that can be read
        pass
    return function(**given)


def columns(samples: Sequence[CompletionToReward]) -> dict[str, list[Any]]:
    """What a function gets next to prompts and completions, each a list with one value for each completion.

    Every key of the prompts' records, None where one has no such key; ``history``, the turns before the question; the
    expected answer also as ``answer``, unless the record has a key of that name itself; and ``completion_ids``, lists
    of token ids.
    """
    records = [_record(sample.item) for sample in samples]
    # A dictionary instead of a set keeps the order.
    names = dict.fromkeys(name for record in records for name in record)
    values = {name: [record.get(name) for record in records] for name in names
              if name not in ("prompt", "prompts", "completions")}
    return values | {"completion_ids": [list(sample.tokens) for sample in samples]}


def _record(item: Item) -> dict[str, Any]:
    always = {"aliases": [], "tolerance": 0.0, "cluster": "", "section": UNSPECIFIED, "history": []}
    return {"answer": item.expected_answer, **always, **item.to_json()}


def _answer(compute: Compute, line: str, settings: RewardSettings) -> dict[str, Any]:
    try:
        # Read anew for each function: it may change the lists that it is given.
        samples = list(map(sample_from_json, json.loads(line)))
        return _checked(compute(samples), samples)
    except BaseException as error:  # noqa: BLE001 - rewards are other people's code; what they raise is the answer
        return {"problem": _raised(error, settings)}


def _checked(given: object, samples: Sequence[CompletionToReward]) -> dict[str, Any]:
    """The values as floats, or what is wrong with them."""
    if not isinstance(given, list):
        return {"problem": f"returned {type(given).__name__}, not a list of {len(samples)} numbers"}
    if len(given) != len(samples):
        return {"problem": f"returned {len(given)} values for {len(samples)} completions"}
    for number, (value, sample) in enumerate(zip(given, samples, strict=True), start=1):
        if not isinstance(value, Real) or not math.isfinite(value):
            return {"problem": f"returned {repr(value)[:60]} for completion {number} of {len(samples)} "
                               f"(item {sample.item.id[:60]}), not a finite number"}
    return {"values": [float(value) for value in given]}


def _raised(error: BaseException, settings: RewardSettings) -> str:
    limit = f" (`memory_gib` is {settings.memory_gib:g})" if isinstance(error, MemoryError) else ""
    # A file that is run by its path has that path in its frames; what the standard library froze has no file.
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__ and not frame.filename.startswith("<")]
    # Their deepest line, not that of a library that it called.
    where = [f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in theirs
             if frame.filename == theirs[0].filename][-1:]
    return f"raised {type(error).__name__}: {error}"[:MAX_PROBLEM] + limit + "".join(where)


if __name__ == "__main__":
    main()
