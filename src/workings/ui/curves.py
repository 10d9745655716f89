"""Curves of a run over steps, tokens or seconds, thinned on the server without losing a spike; the page draws them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
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
"""Points a curve is thinned to."""


class Series(BaseModel):
    """One curve. ``x`` and ``y`` have the same length; thinning keeps both ends and all extremes."""

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


def _gib(line: Line) -> Any:
    size = line.get("memory_bytes")
    return size / 2 ** 30 if isinstance(size, int | float) else None


KINDS: tuple[tuple[str, str, str, Callable[[Line], Any]], ...] = (
    ("loss", "Training loss", "nats per token", itemgetter("loss")),
    ("evaluation_loss", "Evaluation loss", "nats per token", lambda line: line.get("evaluation_loss")),
    ("learning_rate", "Learning rate", "", lambda line: line.get("learning_rate")),
    ("grad_norm", "Gradient norm", "", lambda line: line.get("grad_norm")),
    ("share_of_weights_changed", "Share of weights changed", "of stored weights",
     lambda line: line.get("share_of_weights_changed")),
    ("tokens_per_second", "Speed", "tokens/s",
     lambda line: line["tokens"] / line["seconds"] if line["seconds"] > 0 else None),
    ("memory_bytes", "Peak memory", "GiB", _gib),
)
"""Key, title, unit, and how a metrics line gives it. A line has at least step, loss, tokens and seconds."""
AXES: tuple[XAxis, ...] = ("step", "tokens", "seconds")
SMOOTHED_METRICS = ("loss", "objective", "tokens_per_second", "grad_norm", "reward", "preference_loss", "margin",
                    "kl_teacher")
OBJECTIVE = ("What an update minimizes when it learns from the model's own completions. It does not show how good the "
             "model is: read the {instead} instead. Bad sign: sudden jumps.")
"""Note about the loss of a run that learns from its own samples."""
MAX_NAMES = 64
"""Maximum number of rewards read from a record."""
# A loss that is NaN cannot be drawn either, so NaN also marks missing values.
NONE = float("nan")
NO_VALUES: Values = np.empty(0)


@dataclass(frozen=True)
class Columns:
    """A run's metrics as arrays of one length."""

    parts: dict[str, Values]
    """Those of every run: `AXES` and `KINDS`."""
    rewarded: dict[str, Values]
    """Those of a run that learns from more than traces, such as `reward`."""

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "Columns":
        """The columns of a run's metrics."""
        parts: dict[str, Values] = {name: np.array([line[name] for line in lines], np.float64) for name in AXES}
        # Lines hold the tokens and seconds of one step; an axis needs running sums.
        parts |= {name: np.cumsum(parts[name]) for name in AXES if name != "step"}
        # `type`, not `isinstance`: a bool is an int.
        parts |= {name: np.array([value if type(value := read(line)) in (int, float) else NONE for line in lines],
                                 dtype=np.float64) for name, _, _, read in KINDS}
        rows = [numbers(line) for line in lines]
        names = dict.fromkeys(name for values in rows for name in values)
        # Bounded, because each line of a foreign record may have a new name.
        left_out = {*[name for name in names if name.startswith(PREFIXES)][MAX_NAMES:]}
        return cls(parts, {name: np.array([values.get(name, NONE) for values in rows], dtype=np.float64)
                           for name in names if name not in left_out})


def curves(columns: Columns, x: XAxis, low: float | None = None, high: float | None = None, mean: int = 0
           ) -> list[Series]:
    """The curves between two places of the axis (both included); by default all.

    ``mean`` is the number of steps in smoothed curves: 0 for 1/`SMOOTHING_SHARE` of the run, 1 for none.
    """
    axis = columns.parts[x]
    # Of the whole run, so that zooming does not change the curve.
    span = mean or len(axis) // SMOOTHING_SHARE
    inside = (axis >= (-np.inf if low is None else low)) & (axis <= (np.inf if high is None else high))
    empty_curves = _rewarded(columns.rewarded)
    for key, title, unit, _ in KINDS:
        series = Series(key=key, title=title, unit=unit, x=[], y=[])
        if key == "loss" and columns.rewarded:
            if "preference_loss" in columns.rewarded:  # has its own figure
                continue
            # Another key: token losses and objective values must not share a figure.
            instead = "divergence from the teacher" if "kl_teacher" in columns.rewarded else "reward"
            series = Series(key="objective", title="Value of the objective", unit="", x=[], y=[],
                            note=OBJECTIVE.format(instead=instead))
        empty_curves.append((columns.parts[key], series))
    drawn = [_drawn(series, values, axis, inside, span) for values, series in empty_curves]
    return [series for series in drawn if series.x]


def _drawn(empty: Series, values: Values, axis: Values, inside: NDArray[np.bool_], span: int) -> Series:
    """A curve with its points inside the range; without points if it has none there."""
    shown = inside & np.isfinite(values)
    values, axis = values[shown], axis[shown]
    if not len(values):
        return empty
    # Thin after selecting the range, so that zooming in shows every step.
    indices = kept_places(values, MAX_POINTS)
    series = empty.model_copy(update={"x": axis[indices].tolist(), "y": values[indices].tolist()})
    if series.key in SMOOTHED_METRICS and span >= 2:
        # Average all steps, then thin: the mean of the kept extremes would differ.
        series.smoothed, series.smoothing_steps = moving_mean(values, span)[indices].tolist(), span
    return series


def _rewarded(columns: dict[str, Values]) -> list[tuple[Values, Series]]:
    """The curves of `Columns.rewarded`: their values, and a `Series` without points yet; grouped by figure."""
    empty_curves = []
    for panel in PANELS:
        first_values = columns.get(next(iter(panel.lines)), NO_VALUES)
        for key, title in panel.lines_of(columns).items():
            values = columns[key]
            # A single part with weight 1 equals the reward.
            repeats_first = key not in panel.lines and np.array_equal(values, first_values, True)
            never_happened = key in RARE and not np.nan_to_num(values).any()
            if not repeats_first and not never_happened:
                empty_curves.append((values, Series(
                    key=key, title=title, unit=panel.unit, x=[], y=[], figure=panel.key, figure_title=panel.title,
                    note=panel.sentence, log=panel.log)))
    return empty_curves


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
        events = []  # the page's notes say so, and the curves stay
    resumed = [step for event in events if str(event.get("kind", "")).startswith("resumed")
               and type(step := event.get("step", event.get("from_step"))) is int]
    return {"run": name, "x": x, "state": site.row(run, verdict=False).state,
            "series": curves(columns, x, low, high, mean),
            "resumed_at": columns.parts[x][np.isin(columns.parts["step"], resumed)].tolist()}
