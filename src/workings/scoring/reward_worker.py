"""The process that computes rewards (see `workings.scoring.worker`): the shipped ones and functions of other people.

An audit hook refuses connections, look-ups of names, and the start of other programs to a reward function. It does not
stop what raises no audit event: `ctypes`, compiled extensions that call the system themselves, and `multiprocessing`
with its method `spawn`. Files may be read and written. It guards against mistakes; run untrusted code in a container.
"""

import copy
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any

from workings.config.rewards import FileReward, JudgeReward, RewardConfig, reward_name
from workings.scoring.items import UNSPECIFIED
from workings.scoring.rewards import CompletionToReward, RewardSettings, shipped_reward
from workings.scoring.scorers import SCORERS, load_scorer, run_file
from workings.scoring.worker import Answer, error_text, limit_memory, loading, serve

REFUSED = {
    **dict.fromkeys(("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                     "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"), "no network"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
                     "pty.spawn", "os.startfile"), "no other programs")}
"""Audit event -> the end of the ``PermissionError`` that it raises: "a reward function has no network"."""
Compute = Callable[[list[CompletionToReward]], object]


def _load_rewards(job: tuple[RewardSettings, Sequence[str]]) -> Callable[[Any], Iterator[Answer]]:
    """Load all rewards, and give the function that computes them, one answer for each. Raises `RequestError`."""
    settings, versions = job
    limit_memory(int(settings.memory_gib * 1024**3))
    sys.addaudithook(refuse)
    computed: list[Compute] = []
    for reward, version in zip(settings.rewards, versions, strict=True):
        with loading(reward_name(reward), "a file with the function (prompts, completions, **columns)"):
            computed.append(_load(reward, version, settings))

    def answers(samples: list[CompletionToReward]) -> Iterator[Answer]:
        for compute in computed:
            try:
                # Copied, because a function may change its lists.
                answer = _checked(compute(copy.deepcopy(samples)), samples)
            except BaseException as error:  # noqa: BLE001 - what other people's code raises is the answer
                limit = f" (`memory_gib` is {settings.memory_gib:g})" if isinstance(error, MemoryError) else ""
                answer = {"problem": error_text(error, limit)}
            yield answer
            if "problem" in answer:
                break
    return answers


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook."""
    if event in REFUSED:
        # An OSError, which libraries expect that can do without.
        raise PermissionError(f"a reward function has {REFUSED[event]} ({event})")


def _load(reward: RewardConfig, version: str, settings: RewardSettings) -> Compute:
    if isinstance(reward, JudgeReward):
        return lambda samples: [0.0] * len(samples)  # the parent asks it, because there is no network here
    if not isinstance(reward, FileReward):
        if reward.scorer in SCORERS:
            load_scorer(reward.scorer)  # imports its library now, so that no call has to
        return lambda samples: [shipped_reward(reward, sample, settings) for sample in samples]
    function = run_file(reward_name(reward), settings.path(reward), "function", reward.function,
                        unchanged=settings.version(reward) == version)
    return lambda samples: _called(function, {
        "prompts": [sample.item.prompt for sample in samples],
        "completions": [sample.text for sample in samples], **columns(samples)})


def _called(function: Callable[..., object], given: dict[str, list[Any]]) -> object:
    """A function's result. If it needs other arguments, raises ``TypeError`` that lists the available ones."""
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        raise TypeError(f"{error}; it is called with {', '.join(given)}") from None
    except ValueError:  # compiled functions may have no signature that can be read
        pass
    return function(**given)


def columns(samples: Sequence[CompletionToReward]) -> dict[str, list[Any]]:
    """What a function gets besides prompts and completions: lists with one value for each completion.

    These are the keys of the prompts' records (None for a record without the key); ``history``, the turns before the
    question; ``answer``, the expected answer, unless the records have such a key; and ``completion_ids``, lists of
    token ids.
    """
    records = [{"answer": sample.item.expected_answer, "aliases": [], "tolerance": 0.0, "cluster": "", "history": [],
                "section": UNSPECIFIED, **sample.item.to_json()} for sample in samples]
    # A dictionary instead of a set keeps the order.
    names = dict.fromkeys(name for record in records for name in record)
    values = {name: [record.get(name) for record in records] for name in names
              if name not in ("prompt", "prompts", "completions")}
    return values | {"completion_ids": [list(sample.tokens) for sample in samples]}


def _checked(given: object, samples: Sequence[CompletionToReward]) -> Answer:
    """The values as floats, or the problem."""
    if not isinstance(given, list):
        return {"problem": f"returned {type(given).__name__}, not a list of {len(samples)} numbers"}
    if len(given) != len(samples):
        return {"problem": f"returned {len(given)} values for {len(samples)} completions"}
    for number, (value, sample) in enumerate(zip(given, samples, strict=True), start=1):
        if not isinstance(value, Real) or not math.isfinite(value):
            return {"problem": f"returned {repr(value)[:60]} for completion {number} of {len(samples)} "
                               f"(item {sample.item.id[:60]}), not a finite number"}
    return {"values": [float(value) for value in given]}


if __name__ == "__main__":
    serve(_load_rewards)
