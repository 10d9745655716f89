"""The best checkpoint of a run, a function of its recipe and its log only.

So a run that was killed and resumed keeps the same one, and a verifier can recompute it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FIELDS = {"loss": "evaluation_loss", "accuracy": "held_out_score"}
"""Value of `checkpoint.measure` -> its field in a metrics line."""
MARKS = "held_out_right"
KEPT = "kept"
"""Key of the manifest's facts."""


@dataclass(frozen=True, kw_only=True)
class BestCheckpoint:
    """The best of the measured checkpoints, the earliest of equal ones."""

    step: int
    measure: str
    value: float
    last_step: int
    """The last measured checkpoint."""
    last_value: float
    measured: int
    """Number of measured checkpoints."""
    since: int
    """Measured checkpoints after the best one."""
    marks: tuple[str, str]
    """Which items were correct, for the best and the last one; empty for losses."""
    patience: int
    """`checkpoint.patience`."""

    @property
    def ends_the_run(self) -> bool:
        """Whether no better one has come for `patience` checkpoints."""
        return 0 < self.patience <= self.since

    @property
    def reason(self) -> str:
        """Reason of the end of a run that this ends."""
        return (f"no better {self.measure} than after step {self.step} in {self.since} "
                f"checkpoint{'' if self.since == 1 else 's'}, which is checkpoint.patience")


def best_checkpoint(section: Mapping[str, Any], lines: Iterable[Mapping[str, Any]], planned_steps: int
                    ) -> BestCheckpoint | None:
    """The best checkpoint; None where the recipe keeps the last one, or none is measured.

    Args:
        section: the recipe's `checkpoint`.
        lines: of `train/metrics.jsonl`, in order.
        planned_steps: of the run; the last step is always saved and measured.
    """
    if section.get("keep", "last") != "best":
        return None
    every, measure = int(section["every_steps"]), str(section["measure"])
    measured = [line for line in lines if FIELDS[measure] in line
                and (line["step"] % every == 0 or line["step"] == planned_steps)]
    if not measured:
        return None
    sign = -1 if measure == "loss" else 1
    # `max` gives the first of equal ones.
    at = max(range(len(measured)), key=lambda number: sign * float(measured[number][FIELDS[measure]]))
    best, last = measured[at], measured[-1]
    return BestCheckpoint(
        step=int(best["step"]), measure=measure, value=float(best[FIELDS[measure]]), last_step=int(last["step"]),
        last_value=float(last[FIELDS[measure]]), measured=len(measured), since=len(measured) - 1 - at,
        marks=(str(best.get(MARKS, "")), str(last.get(MARKS, ""))) if measure == "accuracy" else ("", ""),
        patience=int(section.get("patience", 0)))
