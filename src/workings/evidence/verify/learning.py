"""What the way of learning of a recorded run says about its record."""

from collections.abc import Callable

from workings.config.algorithm import Algorithm, find_algorithm
from workings.errors import RecordError
from workings.evidence.verify.record import Unit
from workings.record.best_checkpoint import BestCheckpoint, best_checkpoint
from workings.record.nothing_left import nothing_left


def algorithm_of(unit: Unit) -> type[Algorithm]:
    """The way of a run's recipe; imitation if the recipe names none that is known, which another check reports."""
    section = unit.manifest.config.get("algorithm")
    return find_algorithm(section.get("name") if isinstance(section, dict) else None)


def best_of(unit: Unit) -> BestCheckpoint | None:
    """The best checkpoint by recipe and log; None if the recipe keeps the last one. Raises `RecordError`."""
    section = unit.manifest.config.get("checkpoint")
    try:
        return best_checkpoint(section if isinstance(section, dict) else {}, unit.metrics, unit.manifest.planned_steps)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise RecordError(f"the best checkpoint cannot be found: {type(error).__name__}") from None


def early_end_of(unit: Unit) -> str:
    """Why the recorded run is complete before its last step, by recipe and log; empty where it may not be."""
    if unit.manifest.completed_steps >= unit.manifest.planned_steps:
        return ""
    best, section = best_of(unit), unit.manifest.config.get("algorithm")
    if best is not None and best.ends_the_run:
        return best.reason if best.last_step == unit.manifest.completed_steps else ""
    return nothing_left(section if isinstance(section, dict) else {}, unit.metrics)


def learns_from(examples: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning has examples of this kind."""
    return lambda unit: algorithm_of(unit).examples == examples


def records(name: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning records this file or folder."""
    return lambda unit: name in algorithm_of(unit).records
