"""Rewards of completions and scores of answers, in one process or in several, which share them.

A shipped reward and a score depend on one completion alone, so each process computes those of its share. A person's own
reward may look at all completions, and is called once with all of them, in process 0.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from workings.config.rewards import FileReward, JudgeReward
from workings.distributed.process_group import ComputeShare, ProcessGroup
from workings.scoring.items import Item, item_from_json
from workings.scoring.judge import Judgement, judgement_from_json
from workings.scoring.rewards import CompletionToReward, RewardProcess, RewardSettings, sample_from_json
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess
from workings.ways.rollout_experience import Rewarder

REWARDS, SCORES = "rewards", "scores"
"""Names under which process 0 asks the others for their share."""


def split_rewards(settings: RewardSettings) -> tuple[RewardSettings | None, RewardSettings | None]:
    """The shipped rewards of these settings, and a person's own functions and judges; None where there are none."""
    of_files = tuple(reward for reward in settings.rewards if isinstance(reward, FileReward | JudgeReward))
    shipped = tuple(reward for reward in settings.rewards if reward not in of_files)
    return (replace(settings, rewards=shipped) if shipped else None,
            replace(settings, rewards=of_files) if of_files else None)


@dataclass(frozen=True, kw_only=True)
class SharedRewarder:
    """`workings.ways.rollout_experience.Rewarder` of process 0, beside processes that compute their share."""

    processes: ProcessGroup
    names: Sequence[str]
    """Names of all rewards in their order."""
    shipped: RewardProcess
    of_files: RewardProcess | None
    """None without a person's own function."""

    @property
    def replies(self) -> list[str]:
        """As `RewardProcess.replies`."""
        return self.of_files.replies if self.of_files else []

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """The value of every reward of each completion. Raises `TrainingFailed`."""
        records = [sample.to_json() for sample in samples]
        shared = self.processes.shared(REWARDS, records, _rewarded_by(self.shipped))
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


class SharedScoringProcess(ScoringProcess):
    """The scoring process of process 0, beside processes that score their share."""

    def __init__(self, settings: ScoringSettings, processes: ProcessGroup) -> None:
        super().__init__(settings)
        self._processes = processes

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """As `ScoringProcess.judge`. Raises `WorkingsError` where another process failed or is gone."""
        return list(map(judgement_from_json, self._processes.shared(
            SCORES, _as_json(completions), _scored_by(super().judge))))

    def begin(self, completions: Sequence[tuple[Item, str, bool]], pool: Executor) -> Callable[[], list[Judgement]]:
        """As `ScoringProcess.begin`; what is returned raises as `judge` does."""
        # Shared out in this thread: the others make its calls in one order.
        own, gather = self._processes.share_out(SCORES, _as_json(completions))
        scored = pool.submit(_scored_by(super().judge), own)
        return lambda: list(map(judgement_from_json, gather(scored.result())))


def scoring_process(settings: ScoringSettings, processes: ProcessGroup) -> ScoringProcess:
    """What scores answers, in process 0. Raises as `ScoringProcess` does when it is entered."""
    return ScoringProcess(settings) if processes.count == 1 else SharedScoringProcess(settings, processes)


@contextmanager
def shares(rewards: RewardSettings | None, evaluation: ScoringSettings | None) -> Iterator[dict[str, ComputeShare]]:
    """What another process than 0 computes, by task: shipped rewards, and scores of answers, where a run has them."""
    shipped = None if rewards is None else split_rewards(rewards)[0]
    tasks: dict[str, ComputeShare] = {}
    with ExitStack() as stack:
        if shipped is not None:
            tasks[REWARDS] = _rewarded_by(stack.enter_context(RewardProcess(shipped)))
        if evaluation is not None:
            # Not entered: it starts with its first answers. Cancelled, because a share may still be scored.
            scoring = ScoringProcess(evaluation)
            stack.callback(scoring.cancel)
            tasks[SCORES] = _scored_by(scoring.judge)
        yield tasks


def _rewarded_by(process: RewardProcess) -> ComputeShare:
    """The values of completions that `CompletionToReward.to_json` wrote."""
    def compute(records: Sequence[Any]) -> list[dict[str, float]]:
        return process.score([sample_from_json(record) for record in records])

    return compute


def _as_json(completions: Sequence[tuple[Item, str, bool]]) -> list[Any]:
    return [[item.to_json(), text, truncated] for item, text, truncated in completions]


def _scored_by(judge: Callable[[Sequence[tuple[Item, str, bool]]], list[Judgement]]) -> ComputeShare:
    """The judgements of completions that `_as_json` wrote."""
    def compute(records: Sequence[Any]) -> list[dict[str, Any]]:
        completions = [(item_from_json(item), text, truncated) for item, text, truncated in records]
        return [judgement.to_json() for judgement in judge(completions)]

    return compute
