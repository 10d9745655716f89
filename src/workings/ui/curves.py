"""Curves of a run over steps, tokens or seconds, for the page to draw; thinned, but with every spike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record.layout import EVENTS, METRICS
from workings.reports.charts import Values, kept_places, moving_mean
from workings.reports.figures import SMOOTHING_SHARE
from workings.reports.reinforcement import PANELS, PREFIXES, RARE, numbers
from workings.ui.site import Site

XAxis = Literal["step", "tokens", "seconds"]
MAX_POINTS = 1200
"""Most points of a curve."""


class Series(BaseModel):
    """One curve. ``x`` and ``y`` have the same length."""

    key: str
    title: str
    unit: str
    x: list[float]
    y: list[float]
    smoothed: list[float] = Field(default=[], description="Centered moving mean at the same places, if useful")
    smoothing_steps: int = Field(default=0, description="Number of steps in the mean")
    figure: str = Field(default="", description="Curves of one run with the same figure are drawn together")
    figure_title: str = ""
    note: str = Field(default="", description="What the figure means, and what is a bad sign")
    log: bool = Field(default=False, description="Always drawn on a logarithmic axis")


Line = dict[str, Any]
KINDS = (
    ("loss", "Training loss", "nats per token"),
    ("evaluation_loss", "Evaluation loss", "nats per token"),
    ("learning_rate", "Learning rate", ""),
    ("grad_norm", "Gradient norm", ""),
    ("share_of_weights_changed", "Share of weights changed", "of stored weights"),
    ("tokens_per_second", "Speed", "tokens/s"),
    ("memory_bytes", "Peak memory", "GiB"),
)
"""Key, title and unit of the curves of every run."""
SMOOTHED_METRICS = ("loss", "objective", "tokens_per_second", "grad_norm", "reward", "preference_loss", "margin",
                    "kl_teacher")
OBJECTIVE = ("What an update minimizes when it learns from the model's own completions. It does not show how good the "
             "model is: read the {instead} instead. Bad sign: sudden jumps.")
"""Note on the loss of a run that learns from its own completions."""
MAX_NAMES = 64
"""Most rewards with curves; a damaged record may have a new name in each line."""
NONE = float("nan")
"""Marks a missing value, which cannot be drawn either."""


@dataclass(frozen=True)
class Columns:
    """A run's metrics as arrays of one length."""

    parts: dict[str, Values]
    """Those of every run: `KINDS`, and the axes, of which tokens and seconds are sums up to each step."""
    rewarded: dict[str, Values]
    """Those of a run that learns from more than traces, such as `reward`."""

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "Columns":
        """The columns of a run's metrics. Each line has at least step, loss, tokens and seconds."""
        parts: dict[str, Values] = {key: np.array([_value(line, key) for line in lines]) for key, _, _ in KINDS}
        parts["step"] = np.array([line["step"] for line in lines], np.float64)
        for axis in ("tokens", "seconds"):
            parts[axis] = np.cumsum(np.array([line[axis] for line in lines], np.float64))
        rows = [numbers(line) for line in lines]
        names = dict.fromkeys(name for values in rows for name in values)
        left_out = {*[name for name in names if name.startswith(PREFIXES)][MAX_NAMES:]}
        return cls(parts, {name: np.array([values.get(name, NONE) for values in rows], dtype=np.float64)
                           for name in names if name not in left_out})


def _value(line: Line, key: str) -> float:
    """The value of one of `KINDS` in a metrics line, or `NONE`."""
    value: Any = line.get(key)
    if key == "tokens_per_second":
        value = line["tokens"] / line["seconds"] if line["seconds"] > 0 else None
    if type(value) not in (int, float):  # a bool is an instance of int
        return NONE
    return value / 2**30 if key == "memory_bytes" else float(value)


def curves(columns: Columns, x: XAxis, low: float | None = None, high: float | None = None, mean: int = 0
           ) -> list[Series]:
    """The curves from ``low`` to ``high`` on the axis; ``mean``: steps of smoothing, 0 for a share of the run."""
    axis = columns.parts[x]
    span = mean or len(axis) // SMOOTHING_SHARE
    inside = (axis >= (-np.inf if low is None else low)) & (axis <= (np.inf if high is None else high))
    undrawn = _rewarded(columns.rewarded)
    for key, title, unit in KINDS:
        series = Series(key=key, title=title, unit=unit, x=[], y=[])
        if key == "loss" and columns.rewarded:
            if "preference_loss" in columns.rewarded:  # has its own figure
                continue
            # Under another key, so that it does not share a figure with losses of other runs.
            instead = "divergence from the teacher" if "kl_teacher" in columns.rewarded else "reward"
            series = Series(key="objective", title="Value of the objective", unit="", x=[], y=[],
                            note=OBJECTIVE.format(instead=instead))
        undrawn.append((columns.parts[key], series))
    drawn = [_drawn(series, values, axis, inside, span) for values, series in undrawn]
    return [series for series in drawn if series.x]


def _drawn(empty: Series, values: Values, axis: Values, inside: NDArray[np.bool_], span: int) -> Series:
    """The curve with its points inside the range, thinned."""
    shown = inside & np.isfinite(values)
    values, axis = values[shown], axis[shown]
    if not len(values):
        return empty
    indices = kept_places(values, MAX_POINTS)
    series = empty.model_copy(update={"x": axis[indices].tolist(), "y": values[indices].tolist()})
    if series.key in SMOOTHED_METRICS and span >= 2:
        # The mean is over all steps, not over the points that are left.
        series.smoothed, series.smoothing_steps = moving_mean(values, span)[indices].tolist(), span
    return series


def _rewarded(columns: dict[str, Values]) -> list[tuple[Values, Series]]:
    """The curves of `Columns.rewarded`: their values, and a `Series` without points; grouped by figure."""
    undrawn = []
    for panel in PANELS:
        first_values = columns.get(next(iter(panel.lines)), np.empty(0))
        for key, title in panel.lines_of(columns).items():
            values = columns[key]
            # The only part of a reward, with weight 1, equals the reward.
            repeats_first = key not in panel.lines and np.array_equal(values, first_values, True)
            never_happened = key in RARE and not np.nan_to_num(values).any()
            if not repeats_first and not never_happened:
                undrawn.append((values, Series(
                    key=key, title=title, unit=panel.unit, x=[], y=[], figure=panel.key, figure_title=panel.title,
                    note=panel.sentence, log=panel.log)))
    return undrawn


def run_curves(site: Site, name: str, x: XAxis = "step", low: float | None = None, high: float | None = None,
               mean: Annotated[int, Query(ge=0, le=100_000)] = 0) -> dict[str, Any]:
    """Curves of a run over steps, tokens or seconds, thinned; ``low`` and ``high`` bound the axis.

    Smoothed ones are the mean of ``mean`` steps (0: chosen by the length of the run; 1: none). ``resumed_at`` are the
    places on the axis where the run was resumed.
    """
    run = site.folder.path(name)
    columns = site.folder.cache.get("columns", [run / METRICS], lambda: Columns.of(site.folder.metrics(run)))
    try:
        events = site.folder.lines(run / EVENTS)
    except RecordError:
        events = []  # a note on the run's page says so
    resumed = [step for event in events if str(event.get("kind", "")).startswith("resumed")
               and type(step := event.get("step", event.get("from_step"))) is int]
    return {"run": name, "x": x, "state": site.row(run, verdict=False).state,
            "series": curves(columns, x, low, high, mean),
            "resumed_at": columns.parts[x][np.isin(columns.parts["step"], resumed)].tolist()}
