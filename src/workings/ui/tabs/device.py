"""Memory of the device, load of the machine during training, the device check, and the environment."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.hardware.machine_use import SECONDS_BETWEEN
from workings.record.layout import MACHINE
from workings.reports.figures import NARROW, Drawn, line_figure
from workings.reports.line_chart import Curve
from workings.ui.folder import Folder
from workings.ui.memory_bars import memory_bar
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab

KINDS = {"cpu_percent": ("Processors at work", "percent", 1), "host_memory_used_bytes": ("Memory in use", "GiB", 2**30),
         "gpu.percent": ("Cards at work", "percent", 1), "gpu.memory_bytes": ("Memory of cards in use", "GiB", 2**30),
         "gpu.power_watts": ("Power of cards", "watts", 1), "gpu.celsius": ("Temperature of cards", "°C", 1)}
"""Key in the record, title of its figure, unit, and divisor; for the machine and for each card."""
MAX_CARDS = 16
"""Maximum number of cards read from a record."""
LONGEST_GAP = 3 * SECONDS_BETWEEN
"""Longest counted interval between two lines, in seconds: a stopped run did nothing in between."""
_CARD = re.compile(r"gpu\.(\d{1,2})\.(\w+)")
_COLORS = 4
HALF_WIDE = 600
"""Width for two figures in a row."""


class MachineCurve(BaseModel):
    """One number over time; both lists have the same length."""

    name: str = Field(description="The card; empty for the whole machine")
    minutes: list[float]
    values: list[float]


class MachineFigure(BaseModel):
    """Curves of one kind."""

    key: str
    title: str
    unit: str
    curves: list[MachineCurve]


class MachineCurves(BaseModel):
    """Load of the machine during training, by all processes; no figures if nothing was recorded."""

    run: str
    figures: list[MachineFigure]


def machine_use(folder: Folder, run: Path) -> MachineCurves:
    """Read a run's `train/machine.jsonl` so far. Invalid lines and numbers are left out."""
    try:
        lines = folder.tail(run / MACHINE).lines()
    except RecordError:
        lines = []  # a damaged file hides only this part
    timed = [(at, line) for line in lines if (at := _time(line)) is not None]
    minutes = [0.0]
    for (before, _), (after, _) in pairwise(timed):
        minutes.append(minutes[-1] + min(max(0.0, after - before), LONGEST_GAP) / 60)
    curves: dict[str, dict[str, MachineCurve]] = {key: {} for key in KINDS}
    for at, (_, line) in zip(minutes, timed, strict=False):
        for name, value in line.items():
            kind, card = _kind(name)
            if kind and type(value) in (int, float) and math.isfinite(value):
                curve = curves[kind].setdefault(card, MachineCurve(name=card, minutes=[], values=[]))
                curve.minutes.append(round(at, 3))
                curve.values.append(value / KINDS[kind][2])
    return MachineCurves(run=folder.name(run), figures=[
        MachineFigure(key=key, title=KINDS[key][0], unit=KINDS[key][1], curves=list(of_kind.values()))
        for key, of_kind in curves.items() if of_kind])


def drawn(figure: MachineFigure) -> Drawn | None:
    """The figure, with its numbers as a table; None with fewer than two points."""
    # One point makes no line.
    curves = [curve for curve in figure.curves if len(curve.minutes) > 1]
    if not curves:
        return None
    lines = [Curve(name=curve.name, points=list(zip(curve.minutes, curve.values, strict=True)), color=number % _COLORS)
             for number, curve in enumerate(curves)]
    return line_figure(figure.title, lines, x_label="minute", y_label=figure.unit, zero=True, digits=".1f",
                       wide=(HALF_WIDE, 220), narrow=(NARROW, 220))


def _time(line: dict[str, Any]) -> float | None:
    try:
        return datetime.fromisoformat(str(line.get("time")).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _kind(name: str) -> tuple[str, str]:
    """The kind of number and its GPU; empty for an unknown name."""
    if (named := _CARD.fullmatch(name)) is not None:
        kind, card = f"gpu.{named[2]}", int(named[1])
        return (kind, f"card {card}") if kind in KINDS and card < MAX_CARDS else ("", "")
    return (name, "") if name in KINDS and not name.startswith("gpu.") else ("", "")


def run_machine(site: Site, name: str) -> MachineCurves:
    """Load of the machine while a run trained: memory, processors and GPUs over the minutes."""
    return machine_use(site.folder, site.folder.path(name))


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    figures = machine_use(site.folder, run.path).figures
    return {"bar": memory_bar(run.detail.memory),
            "machine": [(curve_figure.title, figure) for curve_figure in figures
                        if (figure := drawn(curve_figure)) is not None]}


TAB = Tab(key="device", title="Device", position=20, group="Training",
          shown=lambda run: run.trained, values=_values,
          answer=run_machine)
