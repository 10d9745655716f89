"""The process that scores: reads pickled requests from standard input and writes one line for each answer.

Scoring runs here so that no completion, scorer or reward function can hang, exhaust or crash the run; the process may
be killed at any moment. The first request says what it is for: the settings of a scorer, or those of rewards. Each
later one holds a whole chunk, which the parent has written before the first answer comes, so that neither side blocks.

An audit hook refuses a reward function what Python reports before it happens: connections, look-ups of names, and the
start of other programs, which would be free of the hook. It does not stop what raises no audit event: `ctypes`,
compiled extensions that call the system themselves, and `multiprocessing` with its method `spawn`. Files may be read
and written. It is a guard against mistakes; code that is not trusted belongs into a container.
"""

import contextlib
import copy
import inspect
import json
import math
import os
import pickle
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from workings.config.rewards import FileReward, JudgeReward, RewardConfig, reward_name
from workings.errors import RequestError
from workings.scoring.items import UNSPECIFIED, Item
from workings.scoring.judge import Judgement, judge
from workings.scoring.rewards import CompletionToReward, RewardSettings, shipped_reward
from workings.scoring.scorers import SCORERS, ScoreFunction, load_scorer
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import stopping_signals

REFUSED = {
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                     "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"), "no network"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
                     "pty.spawn", "os.startfile"), "no other programs"),
}
"""Audit events that end in ``PermissionError``, and what a reward function does not have."""
MAX_PROBLEM = 500
"""Longest description of what went wrong, in characters."""

Answer = dict[str, Any]
Compute = Callable[[list[CompletionToReward]], object]


def ignore_signals() -> None:
    """Leave signals to the parent: it ends this process when it has decided what becomes of the completions here."""
    for number in stopping_signals():
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        # What `Worker` had held back; a program that is started here finds none blocked.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping_signals())


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
    # A scorer that reads standard input must not eat requests: it finds an empty one. What it prints goes to stderr.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    tag, job = pickle.load(requests)  # noqa: S301 - the parent alone writes here

    def send(answer: Answer) -> None:
        try:
            # By the tag the parent knows an answer from what other code wrote to the same descriptor.
            answers.write(f"{tag}{json.dumps(answer)}\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(0)  # not `sys.exit`, which would write what is waiting once more

    try:
        answers_to = _scores(job) if isinstance(job, ScoringSettings) else _rewards(*job)
    except RequestError as error:
        send({"problem": error.given.removeprefix("scorer: "), "expected": error.expected})
        return
    send({})
    while True:
        try:
            request = pickle.load(requests)  # noqa: S301 - as above
        except EOFError:
            return
        for answer in answers_to(request):
            send(answer)


def _scores(settings: ScoringSettings) -> Callable[[Any], Iterator[Answer]]:
    """What judges completions. Raises `RequestError`."""
    # Before the scorer is loaded, because loading a file runs other people's code as well.
    limit_memory(settings.child_bytes)
    with _named(settings.scorer, "a scorer that can be loaded"):
        score = load_scorer(settings.scorer).score
    return lambda request: (_judged(*completion, score=score, settings=settings, second=request[1])
                            for completion in request[0])


def _judged(item: Item, text: str, truncated: bool, *, score: ScoreFunction, settings: ScoringSettings,
            second: bool) -> Answer:
    try:
        return judge(item, text, score, settings, truncated=truncated, second=second).to_json()
    except TimeoutError as error:
        return Judgement(error=f"time limit: {error}"[:MAX_PROBLEM]).to_json()
    # `SystemExit` as well: it would end the process, and cost the other completions of the chunk their time.
    except BaseException as error:  # noqa: BLE001 - scorers are other people's code; what they raise is the answer
        return Judgement(error=f"scorer raised {type(error).__name__}: {error}"[:MAX_PROBLEM]).to_json()


@contextlib.contextmanager
def _named(name: str, expected: str) -> Iterator[None]:
    """Raise whatever the body raises as a `RequestError` that names what was loaded."""
    try:
        yield
    except RequestError:
        raise
    except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
        raise RequestError(f"{name}: {_raised(error)}", expected) from None


def _rewards(settings: RewardSettings, versions: Sequence[str]) -> Callable[[Any], Iterator[Answer]]:
    """What computes rewards, one answer for each. Raises `RequestError`."""
    limit_memory(int(settings.memory_gib * 1024**3))
    sys.addaudithook(refuse)
    computed: list[Compute] = []
    for reward, version in zip(settings.rewards, versions, strict=True):
        with _named(reward_name(reward), "a file with the function (prompts, completions, **columns)"):
            computed.append(_load(reward, version, settings))

    def answers(samples: list[CompletionToReward]) -> Iterator[Answer]:
        for compute in computed:
            # Copied for each function: it may change the lists that it is given.
            answer = _values(compute, copy.deepcopy(samples), settings)
            yield answer
            if "problem" in answer:
                break
    return answers


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
        raise RequestError(f"{reward_name(reward)}: {path} has changed since its digest was recorded",
                           "the file that was recorded")
    function = runpy.run_path(str(path)).get(reward.function)
    if not callable(function):
        raise RequestError(f"{reward_name(reward)}: no function {reward.function} in {path}", "a function of that name")
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


def _values(compute: Compute, samples: list[CompletionToReward], settings: RewardSettings) -> Answer:
    try:
        return _checked(compute(samples), samples)
    except BaseException as error:  # noqa: BLE001 - rewards are other people's code; what they raise is the answer
        limit = f" (`memory_gib` is {settings.memory_gib:g})" if isinstance(error, MemoryError) else ""
        return {"problem": _raised(error, limit)}


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


def _raised(error: BaseException, limit: str = "") -> str:
    """What other people's code raised, and in which line of theirs."""
    # A file that is run by its path has that path in its frames; what the standard library froze has no file.
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__ and not frame.filename.startswith("<")]
    # Their deepest line, not that of a library that it called.
    where = [f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in theirs
             if frame.filename == theirs[0].filename][-1:]
    return f"raised {type(error).__name__}: {error}"[:MAX_PROBLEM] + limit + "".join(where)


if __name__ == "__main__":
    main()
