"""Rollouts of runs, read when they are asked for and kept until their files change."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from workings.models.tokenizer import Tokenizer
from workings.record.layout import TOKENIZER, rollout_file
from workings.reports.rollouts import GroupOutline, read_outline, read_rollout
from workings.rollouts.rollout import Rollout

KEPT_ROLLOUTS, KEPT_OUTLINES, KEPT_TOKENIZERS = 6, 20_000, 2
T = TypeVar("T")


@dataclass(frozen=True)
class _Places:
    """What is kept until its file changes, the newest last."""

    most: int
    found: dict[Path, tuple[object, Any]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def of(self, path: Path, read: Callable[[], T]) -> T:
        """What ``read`` gave for this file."""
        try:
            state = path.stat()
        except OSError:
            return read()  # says what is missing
        stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
        with self.lock:
            kept = self.found.pop(path, None)
            if kept is not None and kept[0] == stamp:
                self.found[path] = kept
                value: T = kept[1]
                return value
        # Outside the lock: a large rollout takes a while, and other pages should not wait for it.
        value = read()
        with self.lock:
            self.found[path] = (stamp, value)
            for old in list(self.found)[:-self.most]:
                del self.found[old]
        return value


@dataclass(frozen=True)
class RolloutReader:
    """Reads what is asked for and no other file; a prompt's history reads the front of every rollout once."""

    _rollouts: _Places = field(default_factory=lambda: _Places(KEPT_ROLLOUTS))
    _outlines: _Places = field(default_factory=lambda: _Places(KEPT_OUTLINES))
    _tokenizers: _Places = field(default_factory=lambda: _Places(KEPT_TOKENIZERS))

    def rollout(self, run: Path, step: int) -> Rollout:
        """One rollout without log probabilities. Raises `RecordError`."""
        return self._rollouts.of(run / rollout_file(step), lambda: _light(read_rollout(run, step)))

    def outline(self, run: Path, step: int) -> list[GroupOutline]:
        """One rollout without its tokens. Raises `RecordError`."""
        return self._outlines.of(run / rollout_file(step), lambda: read_outline(run, step))

    def tokenizer(self, run: Path) -> Tokenizer:
        """The run's own. Raises `RequestError`."""
        place = run / TOKENIZER
        return self._tokenizers.of(place / "tokenizer.json", lambda: Tokenizer.load(place))


def _light(rollout: Rollout) -> Rollout:
    # No page shows log probabilities, and they would be most of what is kept in memory.
    return replace(rollout, trainer_log_probs=(), groups=tuple(
        replace(group, samples=tuple(replace(sample, completion=replace(sample.completion, log_probs=[]))
                                     for sample in group.samples)) for group in rollout.groups))
