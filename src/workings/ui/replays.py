"""Recorded replays of a run as the page shows them: recorded against replayed, how far apart, and the wrong ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.evidence.replay.comparison import line_differences
from workings.evidence.replay.unit import FOLDER
from workings.record.layout import REPLAY
from workings.reports.figures import NARROW, WIDE, Drawn, Table, line_figure
from workings.reports.line_chart import Curve


class ReplayStep(BaseModel):
    """One step, taken again."""

    step: int
    recorded_loss: float
    replayed_loss: float
    loss_difference: float = Field(description="Relative")
    grad_norm_difference: float = Field(description="Relative")


class ReplayControl(BaseModel):
    """A wrong replay, which must not come out the same."""

    name: str
    what: str
    outside: bool
    steps: int = Field(description="Steps until it lay outside the tolerance, or all of them")
    loss_difference: float = Field(description="Relative, at the last of these steps")


class Replay(BaseModel):
    """A sealed replay. Its verdict is its own; `workings verify` draws it again from these numbers."""

    name: str
    verdict: str
    sentence: str
    mode: str
    loss_tolerance: float
    steps: list[ReplayStep]
    controls: list[ReplayControl]
    weights: str
    completions: str


@dataclass(frozen=True, kw_only=True)
class ReplayFigure:
    """The pictures of one replay."""

    losses: Drawn
    differences: Drawn | None
    """The figure; None if every step is bit-identical."""


def read_replays(read: Callable[[Path], dict[str, Any]], run: Path, notes: list[str]) -> list[Replay]:
    """All sealed replays of a run, as ``read`` reads a JSON object; one that cannot be read becomes a note."""
    replays = []
    for path in sorted(run.glob(f"{FOLDER}/*/{REPLAY}")):
        try:
            replays.append(_replay(path.parent.name, read(path)))
        # What a forged replay may hold is not known beforehand; the others are shown all the same.
        except (RecordError, KeyError, TypeError, ValueError, AttributeError) as error:
            notes.append(f"replay {path.parent.name}: {type(error).__name__}: {error}"[:300])
    return replays


def _replay(name: str, facts: dict[str, Any]) -> Replay:
    steps = []
    for line in facts["lines"]:
        differences = line_differences(line)
        steps.append(ReplayStep(
            step=line["step"], recorded_loss=_number(line["recorded"]["loss"]),
            replayed_loss=_number(line["replayed"]["loss"]), loss_difference=differences["loss"],
            grad_norm_difference=differences["grad_norm"]))
    # Either may be an object that says why nothing was compared.
    weights, predictions = facts["weights"], facts["predictions"]
    return Replay(
        name=name, verdict=str(facts["verdict"]), sentence=str(facts["sentence"]), mode=str(facts["mode"]),
        loss_tolerance=facts["tolerance"]["loss"], steps=steps,
        controls=[ReplayControl(name=key, what=control["what"], outside=control["outside"], steps=control["steps"],
                                loss_difference=control["differences"].get("loss", 0.0))
                  for key, control in facts["controls"].items()],
        weights=str(weights["absent"]) if "absent" in weights else
        f"{weights['files_identical']} of {weights['files']} files identical after step {weights['step']}, largest "
        f"relative difference {weights['largest_difference']:.2g}",
        completions=str(predictions["absent"]) if "absent" in predictions else
        f"{predictions['same']} of {predictions['asked']} are the recorded text")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def drawn(replay: Replay) -> ReplayFigure | None:
    """Recorded and replayed loss over each other, and their difference under the tolerance; None without steps."""
    # A step without a loss stays in the table and is left out of the drawing, whose axis it would break.
    steps = [step for step in replay.steps if math.isfinite(step.recorded_loss + step.replayed_loss)]
    if not steps:
        return None
    losses = line_figure(
        "Recorded and replayed loss", [
            Curve(name="recorded", points=[(float(step.step), step.recorded_loss) for step in steps], color=0,
                  style="dots"),
            Curve(name="replayed", points=[(float(step.step), step.replayed_loss) for step in steps], color=1)],
        y_label="nats a token", wide=(WIDE, 260), narrow=(NARROW, 240), table=Table(
            caption="Recorded and replayed loss", heads=["Step", "Recorded", "Replayed", "Loss: relative difference",
                                                         "Gradient norm: relative difference"],
            rows=[[str(step.step), f"{step.recorded_loss:.9g}", f"{step.replayed_loss:.9g}",
                   f"{step.loss_difference:.2g}", f"{step.grad_norm_difference:.2g}"] for step in replay.steps]))
    # The axis is logarithmic, and a difference of zero has no place on it.
    points = [(float(step.step), step.loss_difference) for step in steps if step.loss_difference > 0]
    if not points or replay.loss_tolerance <= 0:
        return ReplayFigure(losses=losses, differences=None)
    # Two points are enough for a level line.
    span = [(float(steps[0].step), replay.loss_tolerance), (float(steps[-1].step), replay.loss_tolerance)]
    return ReplayFigure(losses=losses, differences=line_figure(
        "Relative difference of the loss", [Curve(name="difference", points=points, color=1, style="dots"),
                                            Curve(name="tolerance", points=span, color=2)],
        y_label="", log=True, digits=".2g", wide=(WIDE, 260), narrow=(NARROW, 240)))
