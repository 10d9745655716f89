"""Whether a program fits the memory of a device, with the reasons in sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workings.config.recipe import Recipe
from workings.engines.base import Inspection
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts, without_alias
from workings.hardware.memory import gib, host_memory
from workings.record.number_text import percent

MARGINAL_SHARE = 0.9
"""A plan that needs more than this share of the memory fits only marginally: compilers and allocators differ by some
percent."""
CPU_MARGINAL_SHARE = 0.85
"""The same share on a CPU. A process takes up to 15 % more than the compiler counts, because its libraries and its
allocator use the same memory (`benchmarks/results/predicted_vs_measured.json`)."""
Outcome = Literal["fits", "fits, but marginally", "does not fit"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The peak of a program compared with the memory of the device. Bytes are per device."""

    fits: bool
    """Whether the peak is within the limit and, on a CPU, within the memory that is free now."""
    marginal: bool
    """Whether it fits, but with little room (`MARGINAL_SHARE`)."""
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
    available_bytes: int | None = None
    """Memory of the machine that is free now; only measured on a CPU."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``."""
        values = vars(self) | {"reasons": list(self.reasons), "breakdown": dict(self.breakdown),
                               "versions": dict(self.versions)}
        if self.available_bytes is None:
            del values["available_bytes"]
        return values


def memory_verdict(inspection: Inspection, device: DeviceFacts) -> Verdict:
    """Compares a program's peak with the device's limit and, on a CPU, with the memory that is free now."""
    peak, limit = inspection.peak_bytes, device.memory_limit_bytes
    share = CPU_MARGINAL_SHARE if device.platform == "cpu" else MARGINAL_SHARE
    # Other processes use a CPU's memory, too; an accelerator is assumed to serve this run alone.
    memory = host_memory() if device.platform == "cpu" else None
    # A control group may allow this process less than the machine has free.
    free = min(limit, memory.available_bytes) if memory else limit
    outcome = _outcome(peak, free, share)
    fits, marginal = outcome != "does not fit", outcome == "fits, but marginally"
    if memory is None or outcome == _outcome(peak, limit, share):
        sentence = (f"{outcome}: {gib(peak)} of {gib(limit)} a device ({inspection.source}; "
                    f"limit from {device.memory_limit_source})")
    else:
        # The limit alone would give a better verdict: the memory in use by other processes decides.
        sentence = (f"{outcome if fits else 'does not fit now'}: {gib(peak)} of {gib(free)} that are free now "
                    f"({inspection.source}; {memory.available_source}; {gib(limit)} in all)")
    reasons = [sentence]
    if marginal:
        reasons.append(f"marginal: less than {percent(1 - share, 0)} is left, and allocators can take that much more "
                       "than a compiler counts; it may run out of memory")
    return Verdict(fits=fits, marginal=marginal, peak_bytes=peak, limit_bytes=limit, devices=device.count,
                   source=inspection.source, reasons=tuple(reasons), breakdown=inspection.breakdown,
                   versions=inspection.versions, available_bytes=memory.available_bytes if memory else None)


def _outcome(peak_bytes: int, available_bytes: int, marginal_share: float) -> Outcome:
    if peak_bytes > available_bytes:
        return "does not fit"
    return "fits, but marginally" if peak_bytes > marginal_share * available_bytes else "fits"


def verdict_remarks(recipe: Recipe, target: Target, inspection: Inspection) -> list[str]:
    """Sentences to show with the verdict: where its numbers come from, and what it does not cover."""
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
    requested_platform = without_alias(recipe.device)
    if requested_platform not in ("auto", target.platform):
        remarks.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return remarks
