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
    marginal: bool
    peak_bytes: int
    limit_bytes: int
    devices: int
    source: str
    reasons: tuple[str, ...]
    """The verdict in a sentence and, if it is marginal, a warning."""
    breakdown: Mapping[str, int]
    versions: Mapping[str, str]
    available_bytes: int = 0
    """Bytes of a CPU's limit that are free at this moment; 0 on other devices."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``."""
        values = vars(self) | {"reasons": list(self.reasons), "breakdown": dict(self.breakdown),
                               "versions": dict(self.versions)}
        return {key: value for key, value in values.items() if key != "available_bytes" or value}


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
    of_limit = f"{gib(peak)} of {gib(limit)} a device ({inspection.source}; limit from {device.memory_limit_source})"
    of_free = (f"{gib(peak)} of {gib(free)} that are free now ({inspection.source}; "
               f"{memory.available_source if memory else ''}; {gib(limit)} in all)")
    if peak > limit:
        reason = f"does not fit: {of_limit}"
    elif not fits:
        reason = f"does not fit now: {of_free}"
    elif marginal:
        reason = f"fits, but marginally: {of_limit if peak > share * limit else of_free}"
    else:
        reason = f"fits: {of_limit}"
    warning = (f"marginal: less than {percent(1 - share, 0)} is left, as far as allocators differ from compilers; it "
               "may run out of memory") if marginal else ""
    return Verdict(fits=fits, marginal=marginal, peak_bytes=peak, limit_bytes=limit, devices=device.count,
                   source=inspection.source, reasons=tuple(filter(None, (reason, warning))),
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
    number = recipe.precision.compute
    if number in target.no_matrix_units and target.platform != "tpu":
        remarks.append(f"{target.name} has no matrix units for {number}: fitting is not the same as being fast")
    # `cuda` is another word for gpu and no contradiction.
    device = without_alias(recipe.device)
    if device not in ("auto", target.platform):
        remarks.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return remarks
