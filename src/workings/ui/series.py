"""Curves of a run for the page: thinned on the server so that a run of any length draws at once, no spike lost."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from workings.reports.line_chart import kept_places, smoothed

X = Literal["step", "tokens", "seconds"]
POINTS = 1200
"""Points a curve is thinned to."""
SMOOTHING_SHARE = 50
"""The smoothed loss is a centered mean over this part (1/50) of the shown steps."""


class Series(BaseModel):
    """One curve. ``x`` and ``y`` have the same length; both ends and every extreme of a stretch are kept."""

    key: str
    title: str
    unit: str
    x: list[float]
    y: list[float]
    smoothed: list[float] = Field(default=[], description="Centered moving mean at the same places, where it helps")
    smoothing_steps: int = Field(default=0, description="Steps that the mean is over")


class Curves(BaseModel):
    """All curves of a run, and where it was resumed."""

    run: str
    x: X
    last_step: int
    planned_steps: int
    state: str
    seconds_left: float | None = None
    series: list[Series]
    resumed_at: list[float] = Field(description="Places on the x axis after which a resumed run went on")


Line = dict[str, Any]


def _per_second(line: Line) -> float | None:
    seconds = line.get("seconds")
    return line["tokens"] / seconds if isinstance(seconds, int | float) and seconds > 0 else None


KINDS: tuple[tuple[str, str, str, Callable[[Line], Any]], ...] = (
    ("loss", "Training loss", "nats a token", lambda line: line.get("loss")),
    ("evaluation_loss", "Evaluation loss", "nats a token", lambda line: line.get("evaluation_loss")),
    ("learning_rate", "Learning rate", "", lambda line: line.get("learning_rate")),
    ("grad_norm", "Gradient norm", "", lambda line: line.get("grad_norm")),
    ("share_of_weights_changed", "Share of weights changed", "of stored weights",
     lambda line: line.get("share_of_weights_changed")),
    ("tokens_per_second", "Tokens a second", "tokens/s", _per_second),
    ("memory_bytes", "Peak memory", "GiB",
     lambda line: line["memory_bytes"] / 2 ** 30 if isinstance(line.get("memory_bytes"), int | float) else None),
)
"""Key, title, unit, and how a metrics line gives it."""


def places(lines: Sequence[Line], x: X) -> list[float]:
    """Where each line stands on the axis: its step, or the sum of tokens or seconds so far."""
    if x == "step":
        return [float(line["step"]) for line in lines]
    found, total = [], 0.0
    for line in lines:
        total += float(line[x])
        found.append(total)
    return found


def curves(lines: Sequence[Line], x: X, low: float | None = None, high: float | None = None) -> list[Series]:
    """The curves between two places of the axis (both ends included); all of it without them."""
    at = places(lines, x)
    inside = [i for i, place in enumerate(at) if (low is None or place >= low) and (high is None or place <= high)]
    found = []
    for key, title, unit, read in KINDS:
        points = [(at[i], float(value)) for i in inside
                  if isinstance(value := read(lines[i]), int | float) and not isinstance(value, bool)]
        if not points:
            continue
        kept = kept_places(points, POINTS)
        series = Series(key=key, title=title, unit=unit, x=[points[i][0] for i in kept],
                        y=[points[i][1] for i in kept])
        span = len(points) // SMOOTHING_SHARE
        if key in ("loss", "tokens_per_second", "grad_norm") and span >= 2:
            mean = smoothed(points, span)
            series = series.model_copy(update={"smoothed": [mean[i][1] for i in kept], "smoothing_steps": span})
        found.append(series)
    return found
