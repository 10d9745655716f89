"""The rewards of a recipe, each a function of a prompt's record and a completion.

    answer, exact, math                the score of a scorer
    form, steps                        whether the form is kept, share of valid equations: as in a scorecard
    length, overlong                   by the number of tokens
    environment                        the environment's reward of the whole episode
    judge, and functions of a user     a model's reply; run in the process that `RewardProcess` starts

A shipped reward is pure, so a verifier can compute it again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.answers.extract import EXTRACTION_VERSION
from workings.config.rewards import USUAL_LIMITS, FileReward, JudgeReward, OverlongReward, RewardConfig, reward_name
from workings.errors import RequestError, RewardError
from workings.record.digest import file_digest
from workings.scoring.form import STEPS_VERSION, keeps_form
from workings.scoring.items import Item
from workings.scoring.judge import judge, score_answer
from workings.scoring.judge_endpoint import checked_judge, judge_replies
from workings.scoring.model_judge import JUDGE, read_judge, score_of
from workings.scoring.scorers import SCORERS, get_scorer
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import NoAnswer, Worker

SHIPPED_VERSIONS = {"form": "1", "length": "1", "overlong": "1", "environment": "1"}
"""Raised whenever a reward's value changes. Scorers have their own; `steps` has that of the checker of equations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionToReward:
    """One completion of a prompt, to be rewarded."""

    item: Item
    """The prompt's record."""
    text: str
    """The completion, decoded."""
    tokens: Sequence[int]
    """The ids that it was decoded from, without the stop token."""
    truncated: bool
    """Whether it was cut off by the limit on new tokens."""
    episode_reward: float = 0.0
    """The environment's reward of the whole episode; 0 without one."""


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """All that decides the rewards of given completions, from a checked recipe."""

    rewards: tuple[RewardConfig, ...]
    form: str
    """The recipe's `data.reasoning`; `any` checks none."""
    max_new_tokens: int
    """Limit on the length of a completion, in tokens without the stop token."""
    base: Path = Path()
    """Directory that relative paths of files start from: that of the recipe."""
    call_seconds: float = USUAL_LIMITS["seconds"]
    """Time limit of one call of a shipped reward for all completions of a rollout; a user's function has its own."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rewards in their order."""
        return tuple(map(reward_name, self.rewards))

    @property
    def weights(self) -> dict[str, float]:
        """Factor on each reward by name."""
        return {name: reward.weight for name, reward in zip(self.names, self.rewards, strict=True)}

    @property
    def memory_gib(self) -> float:
        """Memory limit of the process that computes rewards, in GiB of address space."""
        # All functions share the process.
        return max((reward.memory_gib for reward in self.rewards if isinstance(reward, FileReward)),
                   default=USUAL_LIMITS["memory_gib"])

    def path(self, reward: FileReward | JudgeReward) -> Path:
        """Path of a user's file."""
        return (self.base / Path(reward.file).expanduser()).resolve()

    def recorded(self) -> list[dict[str, Any]]:
        """Name, weight, parameters and version of each reward as JSON values. Equal records give equal rewards.

        The version of a user's function is the digest of its file, but not of what that file imports. Nothing is
        executed. Raises `RequestError` if a file does not exist.
        """
        return [self.entry(reward) for reward in self.rewards]

    def entry(self, reward: RewardConfig, version: str | None = None) -> dict[str, Any]:
        """One reward's entry of `recorded`; with a given version no library and no file is needed."""
        parameters = self._parameters(reward)
        if version is None:
            version = self.version(reward)
            if isinstance(reward, JudgeReward):
                parameters = read_judge(self.path(reward)).recorded()
        return {"name": reward_name(reward), "weight": reward.weight, "parameters": parameters, "version": version}

    def _parameters(self, reward: RewardConfig) -> dict[str, Any]:
        if reward.scorer in SCORERS:
            return {"extraction_version": EXTRACTION_VERSION}
        if isinstance(reward, OverlongReward):
            return {"max_new_tokens": self.max_new_tokens, "buffer": reward.buffer}
        if isinstance(reward, FileReward):
            return dict(reward.limits)
        if reward.scorer == "form":
            return {"form": self.form}
        return {"max_new_tokens": self.max_new_tokens} if reward.scorer == "length" else {}

    def version(self, reward: RewardConfig) -> str:
        """The version of a reward in the record. Raises `RequestError` if its file does not exist."""
        if reward.scorer == "steps":
            return str(STEPS_VERSION)
        if isinstance(reward, JudgeReward):
            return read_judge(self.path(reward)).version
        if not isinstance(reward, FileReward):
            return SHIPPED_VERSIONS.get(reward.scorer) or get_scorer(reward.scorer).version
        path = self.path(reward)
        if not path.is_file():
            raise RequestError(f"rewards: {reward.scorer} has no file {path}", "a Python file",
                               "write the path as seen from the recipe's directory")
        return f"sha256:{file_digest(path)}"


def shipped_reward(reward: RewardConfig, sample: CompletionToReward, settings: RewardSettings) -> float:
    """The unweighted value of a shipped reward, a pure function. Raises ``ValueError`` for a user's function."""
    if reward.scorer in SCORERS:
        scoring = ScoringSettings(scorer=reward.scorer, form=settings.form)
        try:
            # Not `judge`, which spends most of its time on steps and form.
            _, score = score_answer(sample.item, sample.text, get_scorer(reward.scorer).score, scoring,
                                    truncated=sample.truncated)
            return float(score)
        except TimeoutError:  # of math-verify, for one answer
            return 0.0
    match reward.scorer:
        case "form":
            return float(keeps_form(sample.text, settings.form))
        case "steps":
            # Only the steps are needed, so the cheapest scorer will do.
            judgement = judge(sample.item, sample.text, get_scorer("exact").score,
                              ScoringSettings(scorer="exact", form=settings.form), truncated=sample.truncated)
            return judgement.steps_valid / judgement.steps_checked if judgement.steps_checked else 0.0
        case "length":
            # From 0 for an empty completion to -1 for one as long as the limit.
            return max(-1.0, -len(sample.tokens) / settings.max_new_tokens)
        case "environment":
            return sample.episode_reward
    if isinstance(reward, OverlongReward):
        # A truncated completion counts as one at the limit.
        length = settings.max_new_tokens if sample.truncated else len(sample.tokens)
        in_buffer = length - (settings.max_new_tokens - reward.buffer)
        # With a limit of 100 and a buffer of 20: 0 up to 80 tokens, -0.5 at 90, -1 at 100 (DAPO's soft punishment).
        return max(-1.0, min(0.0, -in_buffer / reward.buffer))
    raise ValueError(f"{reward.scorer} does not come with this project")


def total(values: Mapping[str, float], settings: RewardSettings) -> float:
    """The reward of one completion: the sum of weight times value. Raises `RewardError` if the sum is not finite."""
    parts = {name: weight * values[name] for name, weight in settings.weights.items()}
    try:
        # Exact, so that the order of the rewards does not matter.
        sum_of_parts = math.fsum(parts.values())
    except (OverflowError, ValueError):  # a sum beyond the largest number, or infinities of both signs
        sum_of_parts = math.inf
    if not math.isfinite(sum_of_parts):
        raise RewardError(f"rewards {parts}: their weighted sum is not a finite number")
    return sum_of_parts


class RewardProcess(Worker):
    """A child process that computes rewards, with limits on memory and time and without a network.

    Use as a context manager: entering loads the files of users' functions. Raises `RequestError` if one does not exist,
    cannot be loaded, has no such function or has changed since `RewardSettings.recorded`. It guards against mistakes
    and is no sandbox for hostile code (see `workings.scoring.reward_worker`).
    """

    module = "workings.scoring.reward_worker"

    def __init__(self, settings: RewardSettings) -> None:
        self._settings, self._names = settings, settings.names
        self.replies: list[str] = []
        """A judge's reply to each completion of the last call; empty texts without a judge."""
        judge = next((reward for reward in settings.rewards if isinstance(reward, JudgeReward)), None)
        # The judge is asked by this process, because the child has no network.
        self._judge = None if judge is None else checked_judge(settings.path(judge))
        files = [reward.scorer for reward in settings.rewards if isinstance(reward, FileReward)]
        super().__init__((settings, [reward["version"] for reward in settings.recorded()]), "rewards",
                         ", ".join(files or self._names))

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """The unweighted value of each reward by name, for each completion in the order given.

        Raises `RewardError` if a function raised, took too long, ended its process, or did not return a list with a
        finite number for each completion. The process is replaced at the next call.
        """
        if not samples:
            return []
        limits = [reward.seconds if isinstance(reward, FileReward) else self._settings.call_seconds
                  for reward in self._settings.rewards]
        # Plain numbers, for which the child has to import no library.
        plain = [replace(sample, tokens=[int(token) for token in sample.tokens]) for sample in samples]
        values: dict[str, list[float]] = {}
        try:
            for name, answer in zip(self._names, self._answers(plain, limits), strict=True):
                if "problem" in answer:
                    self._stop()
                    raise RewardError(f"reward {name}: {answer['problem']}")
                values[name] = answer["values"]
        except NoAnswer as error:
            raise RewardError(f"reward {self._names[len(values)]}: {error} ({len(samples)} completions; the limit of a "
                              "function of your own is its key `seconds`)") from None
        self.replies = [""] * len(samples)
        if self._judge is not None:
            try:
                self.replies = judge_replies(self._judge, [(sample.item, sample.text) for sample in samples])
            except RequestError as error:
                raise RewardError(f"reward {JUDGE}: {error.given}") from None
            values[JUDGE] = [score_of(reply) or 0.0 for reply in self.replies]
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
