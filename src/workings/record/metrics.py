"""Lines of `train/metrics.jsonl`: the measurements of each step, their sums, and the speed of the last steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workings.record.number_text import duration
from workings.record.values import Absent, Digest, Finite, parsed_part

WINDOW = 20
"""Last steps that are averaged: after a resume, or next to other work, a run may have another speed."""
LINES_PER_RUN = 40
"""Number of progress lines in a run's log, so that any log is read in a minute."""
Callback = Callable[[Mapping[str, Any]], bool | None]
"""Called with a step's metrics when the step is done; `False` asks for a stop."""
EQUAL = "groups_without_spread"
"""Field of the metrics line of a rollout: the share of its groups whose completions all earned the same."""


class StepMetrics(BaseModel):
    """Keys that every line has; an engine or a caller may add others."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)

    step: int = Field(ge=1)
    """Updates done, this one included; lines go 1, 2, 3, … without a gap."""
    loss: Finite
    """What the update minimizes, before it; of imitation the mean negative log likelihood over the step's supervised
    tokens, in nats."""
    learning_rate: Finite = Field(ge=0)
    """Learning rate of this update."""
    grad_norm: Finite = Field(ge=0)
    """Global L2 norm of the gradient, before clipping."""
    tokens: int = Field(ge=1)
    """Positions that are not padding."""
    supervised_tokens: int = Field(ge=1)
    """Positions that count in the loss."""
    share_of_weights_changed: Finite = Field(ge=0, le=1)
    """Share of parameters whose bits the update changed."""
    seconds: Finite = Field(ge=0)
    """Wall time of the step."""
    memory_bytes: int | Absent
    """Peak bytes per device so far."""
    memory_source: str | Absent
    """Source of this number."""
    batch_digest: Digest
    """`Batches.digest` of the batch."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.supervised_tokens > self.tokens:
            raise ValueError(f"{self.supervised_tokens} supervised of {self.tokens} tokens")
        # JSON has no NaN, but a number can be too large for a float.
        if bad := [key for key, value in (self.model_extra or {}).items()
                   if isinstance(value, float) and not isfinite(value)]:
            raise ValueError(f"not finite: {', '.join(bad)[:80]}")
        return self


RIGHT, WRONG = "1", "0"
"""An item's mark in `held_out_right`."""
TIME_AND_MEMORY = ("seconds", "drawing_seconds", "memory_bytes", "memory_source")
"""Keys in which the lines of a resumed run may differ from those of one that was never stopped."""


def padding_share(tokens: int, positions: int) -> float:
    """Share of positions that are padding, from 0 to 1."""
    return 1 - tokens / positions


def check_line(value: dict[str, Any]) -> StepMetrics:
    """One line as an object. Raises `RecordError` naming the keys that are wrong."""
    return parsed_part(StepMetrics, value, f"step {value.get('step', 'unknown')}")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Speed of a run, and the time that is left, without evaluations and checkpoints."""

    tokens_per_second: float
    """Tokens without padding, over all devices."""
    seconds_left: float

    @property
    def text(self) -> str:
        """Speed and the time that is left, in words."""
        return f"{self.tokens_per_second:,.0f} tokens/s  {duration(ceil(self.seconds_left))} left"


def pace(lines: Sequence[Mapping[str, Any]], steps: int, *, first: int = 1) -> Pace | None:
    """The pace of the last of these metrics lines in a run of this many steps; None until there is one.

    ``first``: this attempt's first step, whose time includes compiling and is left out.
    """
    recent = [line for line in lines[-WINDOW:] if line["step"] > first]
    seconds = sum(float(line["seconds"]) for line in recent)
    if len(recent) < 2 or not seconds:
        return None
    return Pace(tokens_per_second=sum(int(line["tokens"]) for line in recent) / seconds,
                seconds_left=seconds / len(recent) * (steps - int(recent[-1]["step"])))


def has_log_line(line: Mapping[str, Any], steps: int) -> bool:
    """Whether the log of a run of this many steps has a line about the step with this metrics line."""
    step = int(line["step"])
    return step % max(1, steps // LINES_PER_RUN) == 0 or step in (1, steps) or "evaluation_loss" in line


def has_nothing_to_learn(line: Mapping[str, Any]) -> bool:
    """Whether every completion of the rollout is correct and no two of one prompt earned different rewards."""
    return bool(line["groups_all_right"] == 1 and line[EQUAL] == 1)


def nothing_left(section: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """Why a run ends early by the recipe's `algorithm`; empty if it has something to learn, or never had."""
    patience = section.get("patience")
    if not isinstance(patience, int) or patience < 1:
        return ""
    rollouts = [line for line in lines if EQUAL in line]
    # Rewards that never differed are a mistake, not a success.
    had_something = any(line[EQUAL] < 1 for line in rollouts[:-patience])
    if not had_something or not all(map(has_nothing_to_learn, rollouts[-patience:])):
        return ""
    return (f"nothing is left to learn: in {patience} rollout{'' if patience == 1 else 's'} in a row every completion "
            "was correct, which is algorithm.patience")
