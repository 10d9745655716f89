"""Curves of a run for the page: thinned on the server so that a run of any length draws at once, no spike lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from workings.reports.line_chart import Values, kept_places, moving_mean
from workings.reports.reinforcement import PANELS, PREFIXES, numbers

XAxis = Literal["step", "tokens", "seconds"]
MAX_POINTS = 1200
"""Points a curve is thinned to."""
SMOOTHING_SHARE = 50
"""By default, smoothed curves are centered means over this part (1/50) of the run's steps."""


class Series(BaseModel):
    """One curve. ``x`` and ``y`` have the same length; both ends and every extreme of a stretch are kept."""

    key: str
    title: str
    unit: str
    x: list[float]
    y: list[float]
    smoothed: list[float] = Field(default=[], description="Centered moving mean at the same places, where it helps")
    smoothing_steps: int = Field(default=0, description="Steps that the mean is over")
    figure: str = Field(default="", description="Curves of one run with the same figure are drawn together")
    figure_title: str = ""
    note: str = Field(default="", description="What the figure means, and what is a bad sign")
    log: bool = Field(default=False, description="Drawn on a logarithmic axis in any case")


class Curves(BaseModel):
    """All curves of a run, and where it was resumed."""

    run: str
    x: XAxis
    last_step: int
    planned_steps: int
    state: str
    seconds_left: float | None = None
    series: list[Series] = Field(description="With `after`, only what came since, without means")
    resumed_at: list[float] = Field(description="Places on the x axis after which a resumed run went on")


Line = dict[str, Any]


def _per_second(line: Line) -> Any:
    seconds = line["seconds"]
    return line["tokens"] / seconds if seconds > 0 else None


def _gib(line: Line) -> Any:
    size = line.get("memory_bytes")
    return size / 2 ** 30 if isinstance(size, int | float) else None


KINDS: tuple[tuple[str, str, str, Callable[[Line], Any]], ...] = (
    ("loss", "Training loss", "nats a token", itemgetter("loss")),
    ("evaluation_loss", "Evaluation loss", "nats a token", lambda line: line.get("evaluation_loss")),
    ("learning_rate", "Learning rate", "", lambda line: line.get("learning_rate")),
    ("grad_norm", "Gradient norm", "", lambda line: line.get("grad_norm")),
    ("share_of_weights_changed", "Share of weights changed", "of stored weights",
     lambda line: line.get("share_of_weights_changed")),
    ("tokens_per_second", "Speed", "tokens/s", _per_second),
    ("memory_bytes", "Peak memory", "GiB", _gib),
)
"""Key, title, unit, and how a metrics line gives it. A line has at least step, loss, tokens and seconds."""
AXES: tuple[XAxis, ...] = ("step", "tokens", "seconds")
SMOOTHED_METRICS = ("loss", "objective", "tokens_per_second", "grad_norm", "reward", "preference_loss", "margin",
                    "kl_teacher")
OBJECTIVE = ("What an update minimizes when it learns from what the model itself wrote. It does not say how good the "
             "model is: read the {instead} instead. Bad sign: values that leap.")
"""Note of what a log calls loss in a run that draws what it learns from."""
MAX_NAMES = 64
"""Names of rewards that are believed."""
# An array of floats has no empty places; NaN marks them, and a loss that is NaN cannot be drawn either.
NONE = float("nan")
NO_VALUES: Values = np.empty(0)


@dataclass(frozen=True)
class Columns:
    """The lines of a run's metrics as arrays of one length, one an axis and one a kind.

    It does not change: a page that draws it is not disturbed by another one that has read on.
    """

    count: int = 0
    parts: dict[str, Values] = field(
        default_factory=lambda: {name: np.empty(0) for name in (*AXES, *(kind[0] for kind in KINDS))})
    rewarded: dict[str, Values] = field(default_factory=dict)
    """Further values in the lines of a run that learns from rewards, a teacher or pairs; else empty."""

    def __getitem__(self, name: str) -> Values:
        return self.parts[name]

    def grown(self, lines: Sequence[Line]) -> "Columns":
        """The series with the lines added since."""
        new = lines[self.count:]
        if not new:
            return self
        parts = {}
        for name, before in self.parts.items():
            # Lines hold the tokens and seconds of one step, and an axis needs the sums up to it.
            if name in AXES:
                added = np.array([line[name] for line in new], dtype=np.float64)
                if name != "step":
                    added = np.cumsum(added) + (before[-1] if len(before) else 0.0)
            else:
                read = next(kind[3] for kind in KINDS if kind[0] == name)
                # `type` and not `isinstance`: a bool is an int, and would draw as 0 or 1.
                added = np.array([value if type(value := read(line)) in (int, float) else NONE for line in new],
                                 dtype=np.float64)
            parts[name] = np.concatenate([before, added])
        return Columns(count=len(lines), parts=parts, rewarded=self._rewarded([numbers(line) for line in new]))

    def _rewarded(self, new: Sequence[dict[str, float]]) -> dict[str, Values]:
        names = dict.fromkeys([*self.rewarded, *(name for values in new for name in values)])
        # Which names there are is said by the lines alone, and someone else's may have a new one each.
        named = [name for name in names if name.startswith(PREFIXES)]
        left_out = set(named[MAX_NAMES:])
        before = np.full(self.count, NONE)
        return {name: np.concatenate([self.rewarded.get(name, before), np.array(
            [values.get(name, NONE) for values in new], dtype=np.float64)]) for name in names if name not in left_out}


def places(columns: Columns, x: XAxis) -> dict[int, float]:
    """Position of each step on the axis: its number, or the sum of tokens or seconds so far."""
    return dict(zip(columns["step"].astype(int).tolist(), columns[x].tolist(), strict=True))


def curves(columns: Columns, x: XAxis, low: float | None = None, high: float | None = None,
           after: float | None = None, mean: int = 0) -> list[Series]:
    """The curves between two places of the axis (both ends included); all of it without them.

    ``mean`` is the number of steps that smoothed curves are the mean of: 0 a part of the run (`SMOOTHING_SHARE`),
    1 none. With ``after``, only what came behind that place, and no mean: it is drawn onto what is there already.
    """
    at = columns[x]
    # Of the whole run and not of the shown part: looking closer does not make another curve of it.
    span = 1 if after is not None else mean or len(at) // SMOOTHING_SHARE
    inside = np.ones(len(at), dtype=bool)
    for bound, keep in ((low, np.greater_equal), (high, np.less_equal), (after, np.greater)):
        if bound is not None:
            inside &= keep(at, bound)
    lines = []
    for key, title, unit, _ in KINDS:
        series = Series(key=key, title=title, unit=unit, x=[], y=[])
        # Under another key: over each other, losses of tokens and values of an objective would look like one thing.
        if key == "loss" and columns.rewarded:
            instead = "divergence from the teacher" if "kl_teacher" in columns.rewarded else "reward"
            series = Series(key="objective", title="Value of the objective", unit="", x=[], y=[],
                            note=OBJECTIVE.format(instead=instead))
        # That of pairs is among the panels.
        if not (key == "loss" and "preference_loss" in columns.rewarded):
            lines.append(_series(columns[key], at, inside, span, series))
    first = [_series(values, at, inside, span, series) for values, series in _rewarded(columns.rewarded)]
    return [series for series in (*first, *lines) if series.x]


def _series(values: Values, at: Values, inside: NDArray[np.bool_], span: int, empty: Series) -> Series:
    """A curve with what it has inside of the range; without points where none exists."""
    shown = inside & np.isfinite(values)
    values, axis = values[shown], at[shown]
    if not len(values):
        return empty
    # Thinned after the range was chosen, so that zooming in shows every step again.
    indices = kept_places(values, MAX_POINTS)
    series = empty.model_copy(update={"x": axis[indices].tolist(), "y": values[indices].tolist()})
    if series.key in SMOOTHED_METRICS and span >= 2:
        # The mean is over all steps and thinned afterwards: over the kept extremes it would be another number.
        series.smoothed, series.smoothing_steps = moving_mean(values, span)[indices].tolist(), span
    return series


def _rewarded(columns: dict[str, Values]) -> list[tuple[Values, Series]]:
    """The curves of `Columns.rewarded`, without points yet; those of one figure behind each other."""
    lines = []
    for panel in PANELS:
        for line in panel.lines_of(columns):
            values = columns[line.key]
            # The only part of a reward, with weight 1, is the reward once more.
            same = line not in panel.lines and np.array_equal(values, columns.get(panel.lines[0].key, NO_VALUES), True)
            if not same and not (line.rare and not np.nan_to_num(values).any()):
                lines.append((values, Series(key=line.key, title=line.name, unit=panel.unit, x=[], y=[],
                                             figure=panel.key, figure_title=panel.title, note=panel.sentence,
                                             log=panel.log)))
    return lines
