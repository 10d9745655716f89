"""The process that computes rewards: reads the completions of a rollout, answers one line each reward.

A person's function runs here and nowhere else, so that it cannot hang, exhaust or crash the run. An audit hook refuses
what Python reports before it happens: connections, look-ups of names, and the start of other programs, which would be
free of the hook. Python has no way to take it out again. It does not stop what raises no audit event: `ctypes` and
compiled extensions that call the system themselves, and `multiprocessing` with its method `spawn`. Files may be read
and written. It is a guard against mistakes; code that is not trusted belongs into a container.
"""

import inspect
import json
import math
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from workings.config.rewards import FileReward, JudgeReward, RewardConfig, reward_name
from workings.errors import RequestError
from workings.scoring.child_side import ANSWER_TAG, AnswerStream, ignore_signals, limit_memory, request_stream
from workings.scoring.items import UNSPECIFIED, Item
from workings.scoring.rewards import (
    CompletionToReward,
    RewardSettings,
    sample_from_json,
    settings_from_json,
    shipped_reward,
)
from workings.scoring.scorers import SCORERS, load_scorer

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


def main() -> None:
    """Serve requests until standard input ends. The first line is the settings."""
    ignore_signals()
    requests = request_stream()
    first = json.loads(requests.readline())
    answers = AnswerStream(first[ANSWER_TAG])
    settings = settings_from_json(first["settings"])
    # Before any file is loaded, because loading runs other people's code as well.
    limit_memory(int(settings.memory_gib * 1024**3))
    sys.addaudithook(refuse)
    computed: list[Compute] = []
    for reward, version in zip(settings.rewards, first["versions"], strict=True):
        try:
            computed.append(_load(reward, version, settings))
        except BaseException as error:  # noqa: BLE001 - the file is other people's code; what it raises is the answer
            problem = error.given if isinstance(error, RequestError) else _raised(error, settings)
            answers.write({"reward": reward_name(reward), "problem": problem})
            answers.flush()
            return
    answers.write({"ready": len(computed)})
    answers.flush()
    for line in requests:
        for compute in computed:
            answer = _answer(compute, line, settings)
            answers.write(answer)
            answers.flush()
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
    # Taken before the file runs, because code can change the file that it stands in.
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
    """What a function gets beside prompts and completions, each a list with one value for each completion.

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
