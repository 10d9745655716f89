"""Whether a program fits the memory of a device: the verdict with its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workings.config.recipe import Recipe
from workings.engines.base import Inspection
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts, without_alias
from workings.hardware.memory import gib, host_memory
from workings.record.number_text import percent

MARGINAL_SHARE = 0.9
"""Above this share of the limit a fitting plan is called marginal: compilers and allocators differ by some percent."""
CPU_MARGINAL_SHARE = 0.85
"""The share on a CPU, where a process takes up to 15 % more than the compiler counts
(`benchmarks/results/predicted_vs_measured.json`): its libraries and its allocator are in the same memory."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The peak of a program against the memory of the device. Bytes are per device."""

    fits: bool
    """Whether the peak is within the limit and, on a CPU, within the memory that is free now."""
    marginal: bool
    """It fits, but with little room (`MARGINAL_SHARE`)."""
    peak_bytes: int
    limit_bytes: int
    """Memory of the device that a process can use."""
    devices: int
    source: str
    """How the peak is known: `Inspection.source`, e.g. ``compiled`` or ``estimated``."""
    reasons: tuple[str, ...]
    """The verdict in a sentence and, if it is marginal, a warning."""
    breakdown: Mapping[str, int]
    """Bytes of the peak by part, such as ``parameters``."""
    versions: Mapping[str, str]
    """Versions of the compiler, or of the formula, that gave the peak."""
    available_bytes: int = 0
    """Free memory of the machine at this moment, on a CPU; 0 on other devices."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``."""
        values = vars(self) | {"reasons": list(self.reasons), "breakdown": dict(self.breakdown),
                               "versions": dict(self.versions)}
        # 0 means not measured, and must not read as "nothing is free".
        if not self.available_bytes:
            del values["available_bytes"]
        return values


def memory_verdict(inspection: Inspection, device: DeviceFacts) -> Verdict:
    """Compares a program's peak with the device's limit and, on a CPU, with the memory that is free now."""
    peak, limit = inspection.peak_bytes, device.memory_limit_bytes
    # Other processes share a CPU's memory, and their part changes; an accelerator is assumed to be the run's.
    memory = host_memory() if device.platform == "cpu" else None
    # In a control group the machine may have more free than this process may take.
    free = limit if memory is None else min(limit, memory.available_bytes)
    fits = peak <= free
    share = CPU_MARGINAL_SHARE if device.platform == "cpu" else MARGINAL_SHARE
    marginal = fits and peak > share * free
    if not fits:
        outcome = "does not fit" if peak > limit else "does not fit now"
    else:
        outcome = "fits, but marginally" if marginal else "fits"
    # Whether the limit alone would leave enough room, and only the memory in use by others does not.
    free_decides = peak <= limit if not fits else marginal and peak <= share * limit
    if memory is not None and free_decides:
        amount = (f"{gib(peak)} of {gib(free)} that are free now ({inspection.source}; {memory.available_source}; "
                  f"{gib(limit)} in all)")
    else:
        amount = f"{gib(peak)} of {gib(limit)} a device ({inspection.source}; limit from {device.memory_limit_source})"
    reasons = [f"{outcome}: {amount}"]
    if marginal:
        reasons.append(f"marginal: less than {percent(1 - share, 0)} is left, and allocators can take that much more "
                       "than a compiler counts; it may run out of memory")
    return Verdict(fits=fits, marginal=marginal, peak_bytes=peak, limit_bytes=limit, devices=device.count,
                   source=inspection.source, reasons=tuple(reasons),
                   breakdown=inspection.breakdown, versions=inspection.versions,
                   available_bytes=memory.available_bytes if memory else 0)


def verdict_remarks(recipe: Recipe, target: Target, inspection: Inspection) -> list[str]:
    """Sentences next to the verdict: where it comes from, and what it does not cover."""
    remarks = []
    if inspection.refused:
        remarks.append(f"the compiler refused: {inspection.refused}")
    if inspection.source == "estimated":
        why = inspection.why_estimated or f"no compiler was asked for {target.name}"
        remarks.append(f"estimated by formula: {why}; on a machine with the card, "
                    "`workings train` compiles the step and decides before any weight is loaded")
    remarks += inspection.notes
    compute_format = recipe.precision.compute
    if compute_format in target.no_matrix_units and target.platform != "tpu":
        remarks.append(f"{target.name} has no matrix units for {compute_format}: fitting is not the same as being fast")
    # `cuda` is another word for gpu and no contradiction.
    device = without_alias(recipe.device)
    if device not in ("auto", target.platform):
        remarks.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return remarks
