"""Planned and measured memory of a run, for README, report, page, terminal and `verify`.

An accelerator counts the memory of its programs. On a CPU only the resident memory of the process is known, with
interpreter, libraries and compiler: its growth since before the first weight is compared with the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workings.errors import RecordError
from workings.hardware.memory import PROCESS_PEAK, gib
from workings.record.layout import MEASURED, METRICS, PLAN
from workings.record.number_text import percent

PROCESS_NOISE_BYTES = 32 << 20
"""Growth of a process for other reasons than the model: for a smaller plan the growth says nothing."""
EXCESS_SHARE, EXCESS_BYTES = 0.1, 64 << 20
"""A run that takes more than planned by both, as a share of the plan and in bytes, says so."""
_MEASURED = ("measured_peak_bytes", "resident_before_bytes", "peak_before_bytes")
"""Sizes that `plan/measured.json` has where they were counted."""


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """Memory of one run. Bytes are per device."""

    planned_bytes: int
    planned_source: str
    limit_bytes: int
    taken_bytes: int | None
    """Memory of the run only, comparable with the plan; None if it cannot be separated."""
    device_counts: bool
    """Whether the device counted it; otherwise the growth of the process."""
    held_bytes: int | None
    """The highest count as it was read: of the device, or of the whole process; None before the first step."""
    resident_before_bytes: int
    """Resident memory of the process before the first weight; 0 where the device counts."""

    @property
    def taken_words(self) -> str:
        """Description of `taken_bytes`."""
        return "measured by the device" if self.device_counts else "taken by the run"

    def taken_text(self) -> str:
        """Memory used by the run, or an upper bound."""
        if self.taken_bytes is not None:
            return gib(self.taken_bytes)
        return "not known" if self.held_bytes is None else f"at most {gib(self.held_bytes)}"

    def sentence(self, ran_out: bool = False) -> str:
        """A sentence with all of it; ``ran_out``: the memory did not suffice."""
        happened = (f"{self.taken_text()} were held when memory ran out" if ran_out else
                    f"{self.taken_words} {self.taken_text()}")
        if not self.device_counts and self.held_bytes is not None:
            happened += (f" (resident memory of the process {gib(self.held_bytes)}, {gib(self.resident_before_bytes)} "
                         "of it before the first weight)")
        return (f"planned {gib(self.planned_bytes)} a device ({self.planned_source}), {happened}, limit "
                f"{gib(self.limit_bytes)}")

    def gauge(self) -> str:
        """Planned and current memory in a few words; empty if unknown or uninformative."""
        if not self.device_counts and self.planned_bytes < PROCESS_NOISE_BYTES:
            return ""
        return "" if self.taken_bytes is None else f"{gib(self.taken_bytes)} of {gib(self.planned_bytes)} planned"


def memory_use(plan: Mapping[str, Any], measured: Mapping[str, Any],
               line: Mapping[str, Any] | None = None) -> MemoryUse:
    """Planned and measured memory of a run. Raises `RecordError`.

    ``plan`` and ``measured`` are the contents of `plan/plan.json` and `plan/measured.json`. Before the run's end the
    latter only has what the process held before the first weight; ``line`` is then the last of `train/metrics.jsonl`.
    """
    _require_bytes(PLAN, plan, ["peak_bytes", "limit_bytes"])
    _require_bytes(MEASURED, measured, [name for name in _MEASURED if name in measured])
    if line is None:
        peak, source = measured.get("measured_peak_bytes"), measured.get("measured_source", "")
    else:
        _require_bytes(METRICS, line, ["memory_bytes"])
        peak, source = line["memory_bytes"], line.get("memory_source")
    before: int | None = measured.get("resident_before_bytes")
    if before is None:  # the device counted
        taken = held = peak
    elif line is not None and source == PROCESS_PEAK:  # during a run: the peak of the process so far
        taken, held = growth(line["memory_bytes"], before, measured.get("peak_before_bytes", peak)), peak
    else:
        grown = measured.get("growth_bytes")
        taken = grown if isinstance(grown, int) else None
        # Another source has no count of the whole process.
        held = peak if source == PROCESS_PEAK or taken is None else before + taken
    return MemoryUse(
        planned_bytes=plan["peak_bytes"], planned_source=str(plan.get("source")), limit_bytes=plan["limit_bytes"],
        taken_bytes=taken, device_counts=before is None, held_bytes=held, resident_before_bytes=before or 0)


def _require_bytes(file: str, values: Mapping[str, Any], names: list[str]) -> None:
    """Raise `RecordError` unless a file has these values, and each is a number of bytes."""
    if wrong := [name for name in names if type(values.get(name)) is not int]:
        raise RecordError(f"{file}: {', '.join(wrong)}: no number of bytes")


def memory_sentence(plan: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Planned and measured memory of a run that has ended, in words."""
    return memory_use(plan, measured).sentence(ran_out=isinstance(measured.get("out_of_memory"), str))


def excess_sentence(plan: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """How far a finished run exceeded its plan; empty if it did not, or if unknown."""
    use = memory_use(plan, measured)
    excess = (use.taken_bytes or 0) - use.planned_bytes
    if not use.planned_bytes or excess < max(EXCESS_BYTES, EXCESS_SHARE * use.planned_bytes):
        return ""
    return (f"the run took {use.taken_text()}, {percent(excess / use.planned_bytes, 0)} more than the "
            f"{gib(use.planned_bytes)} planned")


def growth(peak: int, resident_before: int, peak_before: int) -> int | None:
    """Bytes that a process grew by; None if its peak (one for its whole life) did not rise."""
    return peak - resident_before if peak > peak_before and resident_before else None
