"""Rollouts of runs, read when they are asked for and kept until their files change."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from workings.models.tokenizer import Tokenizer
from workings.record.layout import TOKENIZER, rollout_file
from workings.reports.rollouts import GroupOutline, read_outline, read_rollout
from workings.rollouts.rollout import Rollout
from workings.ui.file_cache import FileCache

Divergences = dict[tuple[str, int], float]
"""Prompt and seed of a completion -> its log-probability difference, student minus teacher, in nats a
token (mean)."""
KEPT_ROLLOUTS, KEPT_OUTLINES, KEPT_TOKENIZERS = 6, 20_000, 2


@dataclass(frozen=True)
class RolloutReader:
    """Reads what is asked for and no other file; a prompt's history reads the front of every rollout once."""

    _rollouts: FileCache = field(default_factory=lambda: FileCache(KEPT_ROLLOUTS))
    _outlines: FileCache = field(default_factory=lambda: FileCache(KEPT_OUTLINES))
    _tokenizers: FileCache = field(default_factory=lambda: FileCache(KEPT_TOKENIZERS))

    def rollout(self, run: Path, step: int) -> Rollout:
        """One rollout without log probabilities. Raises `RecordError`."""
        return self._read(run, step)[0]

    def divergences(self, run: Path, step: int) -> Divergences:
        """Divergences of completions that a teacher judged; empty without a teacher. Raises `RecordError`."""
        return self._read(run, step)[1]

    def _read(self, run: Path, step: int) -> tuple[Rollout, Divergences]:
        def read() -> tuple[Rollout, Divergences]:
            rollout = read_rollout(run, step)
            return _light(rollout), _divergences(rollout)

        # Tokens are packed in the file, and take more than ten times as much here.
        return self._rollouts.get(run / rollout_file(step), read, lambda contents: 40 * sum(
            len(sample.completion.tokens) for _, sample in contents[0].all_samples))

    def outline(self, run: Path, step: int) -> list[GroupOutline]:
        """One rollout without its tokens. Raises `RecordError`."""
        return self._outlines.get(run / rollout_file(step), lambda: read_outline(run, step))

    def tokenizer(self, run: Path) -> Tokenizer:
        """The run's own. Raises `RequestError`."""
        path = run / TOKENIZER
        return self._tokenizers.get(path / "tokenizer.json", lambda: Tokenizer.load(path))


def _divergences(rollout: Rollout) -> Divergences:
    # A run with rewards may have recorded what a frozen model says, too, which no one learned from alone.
    if not rollout.reference_log_probs or rollout.groups[0].is_rewarded:
        return {}
    return {(prompt.item.id, sample.seed): float(np.mean(np.asarray(sample.completion.log_probs,
                                                                    np.float64) - teacher_log_probs))
            for (prompt, sample), teacher_log_probs in zip(rollout.trained_samples, rollout.reference_log_probs,
                                                           strict=True)}


def _light(rollout: Rollout) -> Rollout:
    # No page shows log probabilities, and they would be most of what is kept in memory.
    return replace(rollout, trainer_log_probs=(), reference_log_probs=(), groups=tuple(
        replace(group, samples=tuple(replace(sample, completion=replace(sample.completion, log_probs=[]))
                                     for sample in group.samples)) for group in rollout.groups))
