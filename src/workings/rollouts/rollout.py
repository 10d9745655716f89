"""One rollout: groups of completions with rewards and advantages, and the batches that updates take from them.

Everything that follows from tokens and rewards is made here by pure functions, so that a verifier makes it again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workings.config.algorithms import DrawingAlgorithm
from workings.config.recipe import Recipe
from workings.data.batches import Position, bucket_lengths, make_batch
from workings.data.rows import Row
from workings.engines.base import Completion
from workings.models.batch import Batch, BatchShape
from workings.models.tokenizer import Tokenizer
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE
from workings.record.digest import bytes_digest
from workings.rollouts.prompts import Prompt
from workings.scoring.rewards import CompletionToReward

SIGNALS = (ADVANTAGE, BEHAVIOR, REFERENCE)
"""In the order in which a batch's digest has them."""
Rewards = Mapping[str, float]
"""Value of each reward of one completion by name, without its weight."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One completion that was drawn."""

    seed: int
    completion: Completion
    """Tokens, the stop token, and the log probability of each of them when it was drawn."""
    rewards: Rewards = field(default_factory=dict)
    """Empty where the algorithm has none."""
    reward: float = 0.0
    """Sum of weights times values."""
    advantage: float = 0.0
    """How much better it was than its group."""

    @property
    def learned(self) -> list[int]:
        """Tokens that the model wrote, the stop token included: those that learn."""
        stop = self.completion.stop_token
        return self.completion.tokens if stop is None else [*self.completion.tokens, stop]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The completions of one prompt."""

    prompt: Prompt
    epoch: int
    samples: tuple[Sample, ...]
    kept: bool = True
    """Whether an update learns from it; dynamic sampling leaves groups out."""

    @property
    def is_rewarded(self) -> bool:
        """Whether its completions have rewards; a teacher's have none."""
        return bool(self.samples[0].rewards)

    @property
    def has_spread(self) -> bool:
        """Whether its rewards differ: otherwise every advantage is 0."""
        return len({sample.reward for sample in self.samples}) > 1


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """What was drawn before one update and learned from by it and, where there are several, by those after it."""

    step: int
    """First update that learns from it, from 1; the weights are those after the update before."""
    position: Position
    """Where its prompts begin in the data."""
    after: Position
    """Where those of the next rollout begin."""
    groups: tuple[Group, ...]
    """In the order in which they were drawn."""
    # Both are left out of `==`, which has no truth value for arrays.
    trainer_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """Of every learned sample, float32: log probabilities of its tokens as the first update computed them."""
    reference_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """The same as a frozen model says, that which training began with or a teacher; empty without one."""

    @property
    def drawn(self) -> list[tuple[Prompt, Sample]]:
        """All samples with their prompts, in order."""
        return [(group.prompt, sample) for group in self.groups for sample in group.samples]

    @property
    def learned(self) -> list[tuple[Prompt, Sample]]:
        """Samples of the groups that updates learn from, in order."""
        return [(group.prompt, sample) for group in self.groups if group.kept for sample in group.samples]


def to_reward(prompt: Prompt, completion: Completion, tokenizer: Tokenizer) -> CompletionToReward:
    """A completion as rewards take it."""
    return CompletionToReward(item=prompt.item, text=tokenizer.decode(completion.tokens), tokens=completion.tokens,
                              truncated=completion.stop_token is None)


def sample_seed(seed: int, step: int, epoch: int, prompt: str, number: int) -> int:
    """A number below 2**32 for one sample, from SHA-256 of what it is drawn for and of nothing beside it.

    Args:
        seed: of the run.
        step: first update that learns from it.
        epoch: of the prompt's turn.
        prompt: the prompt's id.
        number: of the sample in its group, from 0.
    """
    # The id stands last, because it alone may hold a slash: no two samples have the same text.
    return int(bytes_digest(f"rollout/{seed}/{step}/{epoch}/{number}/{prompt}".encode())[:8], 16)


def choose(spreads: Sequence[bool], wanted: int, *, dynamic: bool) -> list[bool]:
    """Which of the groups drawn so far an update learns from: the first ones, with ``dynamic`` only those with spread.

    Args:
        spreads: of each group, whether its rewards differ.
        wanted: groups that the updates take.
        dynamic: whether groups without spread are left out.
    """
    kept: list[bool] = []
    for spread in spreads:
        kept.append(sum(kept) < wanted and (spread or not dynamic))
    return kept


@dataclass(frozen=True, kw_only=True)
class RolloutShape:
    """Sizes of the updates that learn from one rollout."""

    micro_batches: int
    rows: int
    """Of one micro batch over all devices."""
    updates: int
    """From one rollout."""
    buckets: tuple[int, ...]
    """Lengths that a batch may have, ascending."""
    pad_id: int

    @classmethod
    def of(cls, recipe: Recipe, algorithm: DrawingAlgorithm, *, fsdp: int, pad_id: int) -> "RolloutShape":
        """What a recipe asks for with its algorithm, over so many devices (``fsdp``) that share its rows."""
        return cls(micro_batches=recipe.batch.accumulation, rows=recipe.batch.micro_batch * fsdp, pad_id=pad_id,
                   updates=algorithm.updates, buckets=bucket_lengths(recipe.data, recipe.data.max_length))

    @property
    def completions(self) -> int:
        """That the updates of one rollout learn from."""
        return self.rows_per_update * self.updates

    @property
    def rows_per_update(self) -> int:
        """Completions that one update learns from."""
        return self.micro_batches * self.rows

    def of_batch(self, length: int) -> BatchShape:
        """Shape of the batch that holds a row of this length."""
        return BatchShape(self.micro_batches, self.rows, next(size for size in self.buckets if size >= length))


def batch_of(rollout: Rollout, part: int, shape: RolloutShape, algorithm: DrawingAlgorithm) -> Batch:
    """What one of the updates that learn from a rollout is given.

    Args:
        rollout: with its rewards and advantages.
        part: number of the update among them, from 0.
        shape: sizes.
        algorithm: says what each token's advantage is, and what the sum is divided by.
    """
    samples = rollout.learned[part * shape.rows_per_update:(part + 1) * shape.rows_per_update]
    # Signals are [A x B, S] while rows are filled in, and take the batch's [A, B, S] at the end.
    rows = [_row(prompt, sample) for prompt, sample in samples]
    # Where dynamic sampling found too few groups, the rest is empty.
    sequences = [[row] for row in rows] + [[] for _ in range(shape.rows_per_update - len(rows))]
    size = shape.of_batch(max((len(row.tokens) for row in rows), default=1))
    batch = make_batch(sequences, size[:2], size.positions, shape.pad_id)
    said = rollout.reference_log_probs[part * shape.rows_per_update:(part + 1) * shape.rows_per_update]
    # What a teacher says is in the advantages already.
    names = algorithm.objective.signals if said else (ADVANTAGE, BEHAVIOR)
    signals = {name: np.zeros((shape.rows_per_update, size.positions), np.float32) for name in names}
    for number, (prompt, sample) in enumerate(samples):
        span = learned_span(prompt, sample)
        # As a record keeps them, from which a verifier makes the advantages again.
        drawn = np.array(sample.completion.log_probs, np.float32)
        signals[ADVANTAGE][number, span] = algorithm.token_advantages(
            sample.advantage, drawn.tolist(), said[number].tolist() if said else ())
        signals[BEHAVIOR][number, span] = drawn
        if REFERENCE in names:
            signals[REFERENCE][number, span] = said[number]
    tokens = sum(len(sample.learned) for _, sample in samples)
    arrays = batch.arrays | {name: x.reshape(batch.tokens.shape) for name, x in signals.items()}
    # Without any row the sum is 0, and every divisor but 0 will do.
    made = Batch.of(arrays, divided_by=algorithm.divisor(rows=len(rows), tokens=tokens) if rows else 1.0)
    # The stop token counts among the new tokens, so no row has more supervised positions. One number for all batches:
    # another one would be another program.
    return made.with_loss_positions(min(algorithm.max_new_tokens, size.positions))


def learned_span(prompt: Prompt, sample: Sample) -> slice:
    """Positions of a row that predict the tokens of a completion: the prompt's last one predicts the first of them."""
    start = len(prompt.tokens) - 1
    return slice(start, start + len(sample.learned))


def digest_of(batch: Batch) -> str:
    """SHA-256, as hex, of what an update is given: shape, divisor, tokens, loss mask, advantages, log probabilities."""
    # `repr` writes a float so that it is read back to the bit.
    digest = hashlib.sha256(f"{','.join(map(str, batch.tokens.shape))} {batch.divisor!r}\n".encode())
    # Padding counts as 0, so that nobody needs the tokenizer to make the digest again.
    digest.update((batch.tokens * (batch.segment_ids != 0)).astype("<i4").tobytes())
    for x in (batch.loss_mask, *(batch.signals[name] for name in SIGNALS if name in batch.signals)):
        digest.update(x.astype("<f4").tobytes())
    return digest.hexdigest()


def _row(prompt: Prompt, sample: Sample) -> Row:
    learned = sample.learned
    mask = np.zeros(len(prompt.tokens) + len(learned), np.uint8)
    mask[len(prompt.tokens):] = 1
    # Such rows stand in no row index, so nobody asks for the digest of their prompt.
    return Row(prompt.item.id, np.array([*prompt.tokens, *learned], np.int32), mask, "")
