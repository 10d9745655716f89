"""One rollout: groups of completions with rewards and advantages, and the batches of the updates that use them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple, Protocol

import numpy as np

from workings.config.recipe import Recipe
from workings.data.batches import Position, make_batch
from workings.data.epoch_plan import bucket_lengths_before_rows
from workings.data.rows import Row
from workings.engines.base import Completion
from workings.models.batch import Batch, BatchShape
from workings.models.tokenizer import Tokenizer
from workings.objectives.base import Objective
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE
from workings.record.digest import bytes_digest
from workings.rollouts.prompts import Prompt
from workings.scoring.rewards import CompletionToReward

SIGNALS = (ADVANTAGE, BEHAVIOR, REFERENCE)
"""Signals in the order in which they enter a batch's digest."""
Rewards = Mapping[str, float]
"""Value of each reward of one completion by name, without its weight."""


class RolloutRules(Protocol):
    """A way of learning's choices for the batches of a rollout (`workings.ways.parts.rollout_way.RolloutWay`)."""

    @property
    def updates(self) -> int:
        """Updates from one rollout."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Longest completion, in tokens; with an environment the longest turn."""
        ...

    @property
    def masks_truncated(self) -> bool:
        """Whether completions that a limit ended have no advantage."""
        ...

    @property
    def objective(self) -> Objective:
        """The loss of an update."""
        ...

    def token_advantages(self, advantage: float, sampler: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Advantages of a completion's tokens."""
        ...

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Divisor of the sum over an update."""
        ...


class EpisodeTurn(NamedTuple):
    """A turn of the model in an episode, and the reply of the environment."""

    written: int
    """Tokens that the model wrote, stop token included."""
    observed: int
    """Tokens of the environment's reply with its chat turns; 0 after the last turn."""
    reward: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sampled completion with its rewards."""

    seed: int
    completion: Completion
    """Tokens, the stop token, and the log probability of each of them when it was sampled."""
    rewards: Rewards = field(default_factory=dict)
    reward: float = 0.0
    """Sum of weights times values."""
    advantage: float = 0.0
    judge_reply: str = ""
    turns: tuple[EpisodeTurn, ...] = ()
    """Turns of an episode, whose tokens are all in ``completion``: those of a reply have a log probability of 0 and are
    not trained on. Empty without an environment."""
    done: bool = False
    """Whether the environment ended the episode; otherwise a limit did."""

    @property
    def tokens_with_stop(self) -> list[int]:
        """All tokens after the prompt, including the last stop token."""
        stop = self.completion.stop_token
        return self.completion.tokens if stop is None else [*self.completion.tokens, stop]

    @property
    def written(self) -> np.ndarray:
        """bool: which of `tokens_with_stop` the model wrote. These are trained on."""
        if not self.turns:
            return np.ones(len(self.tokens_with_stop), bool)
        counts = [count for turn in self.turns for count in (turn.written, turn.observed)]
        return np.repeat(np.arange(len(counts)) % 2 == 0, counts)

    @property
    def written_tokens(self) -> list[int]:
        """The tokens that the model wrote, without the last stop token."""
        return [token for token, written in zip(self.completion.tokens, self.written, strict=False) if written]

    @property
    def truncated(self) -> bool:
        """Whether a limit ended it."""
        return not self.done if self.turns else self.completion.stop_token is None

    @property
    def episode_reward(self) -> float:
        """Sum of the rewards of its turns."""
        return fsum(turn.reward for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The completions of one prompt."""

    prompt: Prompt
    epoch: int
    samples: tuple[Sample, ...]
    kept: bool = True
    """Whether an update is trained on it; dynamic sampling leaves groups out."""

    @property
    def is_rewarded(self) -> bool:
        """Whether its completions have rewards; in distillation they have none."""
        return bool(self.samples[0].rewards)

    @property
    def has_spread(self) -> bool:
        """Whether its rewards differ: otherwise every advantage is 0."""
        return len({sample.reward for sample in self.samples}) > 1


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Completions that were sampled before an update, for it and, with several updates per rollout, the next ones."""

    step: int
    """First update that is trained on it, from 1; it was sampled with the weights before that update."""
    position: Position
    """Position of its first prompt in the data."""
    after: Position
    """Position of the next rollout's first prompt."""
    groups: tuple[Group, ...]
    sampler: Mapping[str, str] = field(default_factory=dict)
    """Program that sampled it: name, version, digest of the adapters; empty for the engine itself."""
    # Both are left out of `==`, which has no truth value for arrays.
    trainer_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """Log probabilities, float32, of each trained sample's tokens as the first update computed them."""
    reference_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """The same under a frozen model (the first weights, or a teacher); empty without one."""

    @property
    def all_samples(self) -> list[tuple[Prompt, Sample]]:
        """All samples with their prompts, in order."""
        return [(group.prompt, sample) for group in self.groups for sample in group.samples]

    @property
    def trained_samples(self) -> list[tuple[Prompt, Sample]]:
        """Samples of the groups that updates are trained on, with their prompts, in order."""
        return [(group.prompt, sample) for group in self.groups if group.kept for sample in group.samples]


def to_reward(prompt: Prompt, sample: Sample, tokenizer: Tokenizer) -> CompletionToReward:
    """The input of rewards for a sample."""
    return CompletionToReward(
        item=prompt.item, text=tokenizer.decode(sample.completion.tokens), truncated=sample.truncated,
        # Only what the model wrote counts in its length.
        tokens=sample.written_tokens, episode_reward=sample.episode_reward)


def sample_seed(seed: int, step: int, epoch: int, prompt: str, number: int) -> int:
    """Sampling seed (below 2**32) of sample ``number`` of a group, from 0: a hash of these arguments only."""
    # The id is last, because only it may contain a slash: texts are unique.
    return int(bytes_digest(f"rollout/{seed}/{step}/{epoch}/{number}/{prompt}".encode())[:8], 16)


def select_groups(spreads: Sequence[bool], wanted: int, *, dynamic: bool) -> list[bool]:
    """Selects the groups that updates are trained on: the first ``wanted``, with ``dynamic`` only those with spread."""
    kept: list[bool] = []
    for spread in spreads:
        kept.append(sum(kept) < wanted and (spread or not dynamic))
    return kept


@dataclass(frozen=True, kw_only=True)
class RolloutShape:
    """Sizes of a rollout's updates."""

    micro_batches: int
    rows: int
    """Rows of one micro batch over all devices."""
    updates: int
    buckets: tuple[int, ...]
    """Possible lengths of a batch, ascending."""
    pad_id: int
    learned: int
    """Most tokens of a row that are trained on. One number for all batches: another one would be another program."""

    @classmethod
    def from_recipe(cls, recipe: Recipe, algorithm: RolloutRules, *, devices: int, pad_id: int) -> "RolloutShape":
        """The sizes of a recipe with its algorithm; ``devices``: number of devices that share its rows."""
        return cls(micro_batches=recipe.batch.accumulation, rows=recipe.batch.micro_batch * devices, pad_id=pad_id,
                   updates=algorithm.updates, buckets=bucket_lengths_before_rows(recipe.data),
                   learned=most_written(recipe, algorithm))

    @property
    def completions(self) -> int:
        """Completions that all updates of one rollout are trained on."""
        return self.rows_per_update * self.updates

    @property
    def rows_per_update(self) -> int:
        """Completions that one update is trained on."""
        return self.micro_batches * self.rows

    def batch_shape(self, length: int) -> BatchShape:
        """Shape of the batch that holds a row of this length."""
        return BatchShape(self.micro_batches, self.rows, next(size for size in self.buckets if size >= length))


def most_written(recipe: Recipe, algorithm: RolloutRules) -> int:
    """Most tokens that the model writes for one prompt, in all its turns."""
    return algorithm.max_new_tokens * (1 if recipe.environment is None else recipe.environment.turns)


def batch_of(rollout: Rollout, part: int, shape: RolloutShape, algorithm: RolloutRules) -> Batch:
    """The batch of one of a rollout's updates; ``part``: number of the update in the rollout, from 0."""
    samples = rollout.trained_samples[part * shape.rows_per_update:(part + 1) * shape.rows_per_update]
    # Signals are [A x B, S] while rows are filled in, and take the batch's [A, B, S] at the end.
    rows = [_row(prompt, sample) for prompt, sample in samples]
    # Where dynamic sampling found too few groups, the rest is empty.
    sequences = [[row] for row in rows] + [[] for _ in range(shape.rows_per_update - len(rows))]
    size = shape.batch_shape(max((len(row.tokens) for row in rows), default=1))
    batch = make_batch(sequences, size[:2], size.positions, shape.pad_id)
    reference = rollout.reference_log_probs[part * shape.rows_per_update:(part + 1) * shape.rows_per_update]
    # A teacher's log probabilities are in the advantages already.
    names = algorithm.objective.signals if reference else (ADVANTAGE, BEHAVIOR)
    signals = {name: np.zeros((shape.rows_per_update, size.positions), np.float32) for name in names}
    for number, (prompt, sample) in enumerate(samples):
        span = completion_span(prompt, sample)
        # In the record's precision, so that a verifier computes the same advantages.
        sampler_log_probs = np.array(sample.completion.log_probs, np.float32)
        learned = sample.written & (not (algorithm.masks_truncated and sample.truncated))
        signals[ADVANTAGE][number, span] = np.where(learned, algorithm.token_advantages(
            sample.advantage, sampler_log_probs.tolist(), reference[number].tolist() if reference else ()), 0)
        signals[BEHAVIOR][number, span] = sampler_log_probs
        if REFERENCE in names:
            signals[REFERENCE][number, span] = reference[number]
    tokens = sum(int(sample.written.sum()) for _, sample in samples)
    arrays = batch.arrays | {name: x.reshape(batch.tokens.shape) for name, x in signals.items()}
    batch = Batch.of(arrays, divided_by=algorithm.divisor(rows=len(rows), tokens=tokens) if rows else 1.0)
    return batch.with_loss_positions(min(shape.learned, size.positions))


def completion_span(prompt: Prompt, sample: Sample) -> slice:
    """Positions of a row that predict the tokens of a completion: the prompt's last one predicts the first of them."""
    start = len(prompt.tokens) - 1
    return slice(start, start + len(sample.tokens_with_stop))


def digest_of(batch: Batch) -> str:
    """SHA-256, as hex, of an update's inputs: shape, divisor, tokens, loss mask, advantages, log probabilities."""
    # `repr` writes a float so that it is read back to the bit.
    digest = hashlib.sha256(f"{','.join(map(str, batch.tokens.shape))} {batch.divisor!r}\n".encode())
    # Padding counts as 0, so that the digest does not need the tokenizer.
    digest.update((batch.tokens * (batch.segment_ids != 0)).astype("<i4").tobytes())
    for x in (batch.loss_mask, *(batch.signals[name] for name in SIGNALS if name in batch.signals)):
        digest.update(x.astype("<f4").tobytes())
    return digest.hexdigest()


def _row(prompt: Prompt, sample: Sample) -> Row:
    completion = sample.tokens_with_stop
    mask = np.zeros(len(prompt.tokens) + len(completion), np.uint8)
    mask[len(prompt.tokens):] = sample.written
    return Row(prompt.item.id, np.array([*prompt.tokens, *completion], np.int32), mask, "")
