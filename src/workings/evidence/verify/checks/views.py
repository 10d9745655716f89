"""Level 1: texts for people are what this version makes of the record."""

from collections.abc import Iterator
from importlib.metadata import version

from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_unit, finding_from, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.views import views_of, writer_of

MAX_VIEW_BYTES = 16 << 20
"""Largest text that is compared."""


@check("consistency.views", level=1, title="texts for people are those that the record gives", units=every_unit,
       example="a lower loss in a README, or a better accuracy in a model card")
def texts(unit: Unit) -> Iterator[CheckFinding]:
    """README, model cards and samples, rendered again, byte for byte; those of another version are not compared."""
    views = views_of(unit)
    if not views:
        return
    writer = writer_of(unit)
    if writer != version("workings"):
        yield not_checked(f"written by workings {writer[:20]}; `workings verify --render` prints what this version "
                          "makes of the record", unit, blocking=False)
        return
    problems = [f"{name} is not what the record gives: `workings verify --render {name}` prints that"
                for name, render in views.items()
                if not unit.has(name) or unit.read(name, MAX_VIEW_BYTES) != render().encode("utf-8")]
    yield finding_from(problems, ", ".join(views), unit)
