"""Rewards in one process or in several, which share the completions of a rollout.

The value of a shipped reward depends on one completion alone, so each process computes those of its share. A person's
own function may look at all completions, and is called once with all of them, in process 0.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from workings.config.rewards import FileReward
from workings.distributed.process_group import ComputeShare, ProcessGroup
from workings.scoring.rewards import CompletionToReward, RewardProcess, RewardSettings, sample_from_json
from workings.training.rollout_experience import Rewarder

TASK = "rewards"
"""Name under which process 0 asks the others for their share."""


def split_rewards(settings: RewardSettings) -> tuple[RewardSettings | None, RewardSettings | None]:
    """The shipped rewards of these settings, and a person's own functions; None where there are none."""
    of_files = tuple(reward for reward in settings.rewards if isinstance(reward, FileReward))
    shipped = tuple(reward for reward in settings.rewards if reward not in of_files)
    return (replace(settings, rewards=shipped) if shipped else None,
            replace(settings, rewards=of_files) if of_files else None)


@dataclass(frozen=True, kw_only=True)
class SharedRewarder:
    """`workings.training.rollout_experience.Rewarder` of process 0, beside processes that compute their share."""

    processes: ProcessGroup
    names: Sequence[str]
    """Names of all rewards in their order."""
    shipped: RewardProcess
    of_files: RewardProcess | None
    """None without a person's own function."""

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """The value of every reward of each completion. Raises `TrainingFailed`."""
        records = [sample.to_json() for sample in samples]
        shared = self.processes.shared(TASK, records, _by_process(self.shipped))
        own: Sequence[dict[str, float]] = self.of_files.score(samples) if self.of_files else [{} for _ in samples]
        both = [shipped | of_files for shipped, of_files in zip(shared, own, strict=True)]
        return [{name: values[name] for name in self.names} for values in both]


@contextmanager
def rewarder(settings: RewardSettings, processes: ProcessGroup) -> Iterator[Rewarder]:
    """Gives completions their rewards, as long as the context lasts. Raises as `RewardProcess` does."""
    shipped, of_files = split_rewards(settings)
    if processes.count == 1 or shipped is None:
        with RewardProcess(settings) as process:
            yield process
        return
    with (RewardProcess(shipped) as process,
          nullcontext() if of_files is None else RewardProcess(of_files) as process_of_files):
        yield SharedRewarder(processes=processes, names=settings.names, shipped=process, of_files=process_of_files)


@contextmanager
def reward_shares(settings: RewardSettings | None) -> Iterator[dict[str, ComputeShare]]:
    """What another process than 0 computes for these rewards, by task; nothing without shipped ones."""
    shipped = None if settings is None else split_rewards(settings)[0]
    if shipped is None:
        yield {}
        return
    with RewardProcess(shipped) as process:
        yield {TASK: _by_process(process)}


def _by_process(process: RewardProcess) -> ComputeShare:
    """The values of completions that `CompletionToReward.to_json` wrote."""
    def compute(records: Sequence[Any]) -> list[dict[str, float]]:
        return process.score([sample_from_json(record) for record in records])

    return compute
