"""The batches of the updates that are trained on a rollout: a function of the rollout and the recipe."""

import hashlib
from dataclasses import dataclass

import numpy as np

from workings.config.recipe import Recipe
from workings.data.batches import make_batch
from workings.data.epoch_plan import bucket_lengths_before_rows
from workings.data.rows import Row
from workings.errors import RequestError
from workings.models.batch import Batch, BatchShape
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Rollout, Sample
from workings.ways.parts.rollout_way import RolloutWay

SIGNALS = (ADVANTAGE, BEHAVIOR, REFERENCE)
"""Signals in the order in which they enter a batch's digest."""


@dataclass(frozen=True, kw_only=True)
class RolloutShape:
    """Sizes of a rollout's updates. A row is a prompt with one of its completions."""

    micro_batches: int
    rows: int
    """Rows of one micro batch over all devices."""
    updates: int
    buckets: tuple[int, ...]
    """Possible lengths of a batch, ascending."""
    pad_id: int
    learned: int
    """Most tokens of a row that are trained on, for all batches: another number needs another compiled program."""

    @classmethod
    def from_recipe(cls, recipe: Recipe, algorithm: RolloutWay, *, devices: int, pad_id: int) -> "RolloutShape":
        """The sizes of a recipe with its algorithm; ``devices``: number of devices that share its rows."""
        return cls(micro_batches=recipe.batch.accumulation, rows=recipe.batch.micro_batch * devices, pad_id=pad_id,
                   updates=algorithm.updates, buckets=bucket_lengths_before_rows(recipe.data),
                   learned=algorithm.most_written(recipe))

    @property
    def completions(self) -> int:
        """Completions that all updates of one rollout are trained on."""
        return self.rows_per_update * self.updates

    @property
    def rows_per_update(self) -> int:
        """Completions that one update is trained on."""
        return self.micro_batches * self.rows

    def samples_of(self, update: int) -> slice:
        """The trained samples of one of a rollout's updates, from 0: with 8 rows, those from 16 to 23 for update 2."""
        return slice(update * self.rows_per_update, (update + 1) * self.rows_per_update)

    def batch_shape(self, length: int) -> BatchShape:
        """Shape of the batch that holds a row of this length."""
        return BatchShape(self.micro_batches, self.rows, next(size for size in self.buckets if size >= length))


def rollout_way(recipe: Recipe) -> RolloutWay:
    """The way of a recipe with rollouts. Raises `RequestError` for any other recipe."""
    if not isinstance(recipe.algorithm, RolloutWay):
        raise RequestError(f"algorithm.name: {recipe.algorithm.name} samples nothing to learn from",
                           "an algorithm that learns from its own completions", "algorithm.name=grpo")
    return recipe.algorithm


def batch_of(rollout: Rollout, update: int, shape: RolloutShape, algorithm: RolloutWay) -> Batch:
    """The batch of one of a rollout's updates; ``update``: its number in the rollout, from 0."""
    samples = rollout.trained_samples[shape.samples_of(update)]
    reference = rollout.reference_log_probs[shape.samples_of(update)]
    rows = [_row(prompt, sample) for prompt, sample in samples]
    # Where dynamic sampling found too few groups, the last rows are empty.
    sequences = [[row] for row in rows] + [[] for _ in range(shape.rows_per_update - len(rows))]
    size = shape.batch_shape(max((len(row.tokens) for row in rows), default=1))
    batch = make_batch(sequences, size[:2], size.positions, shape.pad_id)
    names = algorithm.objective.signals if reference else (ADVANTAGE, BEHAVIOR)
    # Signals are [A x B, S] while rows are filled in, and take the batch's [A, B, S] at the end.
    signals = {name: np.zeros((shape.rows_per_update, size.positions), np.float32) for name in names}
    for number, (prompt, sample) in enumerate(samples):
        span = completion_span(prompt, sample)
        # In the record's precision, so that a verifier computes the same advantages.
        sampler_log_probs = np.array(sample.completion.log_probs, np.float32)
        advantages = algorithm.token_advantages(
            sample.advantage, sampler_log_probs.tolist(), reference[number].tolist() if reference else ())
        is_masked = algorithm.masks_truncated and sample.truncated
        signals[ADVANTAGE][number, span] = np.where(sample.written & (not is_masked), advantages, 0)
        signals[BEHAVIOR][number, span] = sampler_log_probs
        if REFERENCE in names:  # not in distillation: there the advantages hold the teacher's log probabilities
            signals[REFERENCE][number, span] = reference[number]
    tokens = sum(int(sample.written.sum()) for _, sample in samples)
    arrays = batch.arrays | {name: x.reshape(batch.tokens.shape) for name, x in signals.items()}
    batch = Batch.of(arrays, divided_by=algorithm.divisor(rows=len(rows), tokens=tokens) if rows else 1.0)
    return batch.with_loss_positions(min(shape.learned, size.positions))


def completion_span(prompt: Prompt, sample: Sample) -> slice:
    """Positions of a row that predict a completion's tokens: 2 and 3 after a prompt of 3 tokens, if it has 2 tokens."""
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
