"""Whether a program fits the memory of a device: the verdict with its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workings.hardware.device import DeviceFacts, without_alias
from workings.hardware.memory import HostMemory, gib, host_memory
from workings.record.number_text import percent

if TYPE_CHECKING:
    from workings.config.recipe import Recipe
    from workings.engines.base import Inspection, ProgramShape
    from workings.hardware.catalog import Target

MARGINAL_SHARE = 0.9
"""Above this share of the limit a fitting plan is called marginal: compilers and allocators differ by some percent."""
CPU_MARGINAL_SHARE = 0.85
"""The share on a CPU, where a process takes up to 15 % more than the compiler counts
(`benchmarks/results/predicted_vs_measured.json`): its libraries and its allocator are in the same memory."""
PART_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("optimizer state", ("moments", "master weights")),
    ("gradients", ("gradients", "gradient accumulator", "gradient of the embedding", "head gradient in fp32",
                   "embedding in fp32 (gradient and update)", "update in fp32")),
    ("activations", ("activations", "activations kept for backward", "activations of the layer at hand")),
    ("weights of single layers", ("weights of the layer at hand", "weights laid out for gathering",
                                 "weights and gradients of the layer at hand")),
)
"""Names for humans -> parts; a part outside all groups is its own group."""
TOTAL_ENTRIES = ("sum", "compiler_peak", "aliased", "needed")
"""Entries of a breakdown that are sums of the others."""


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
    breakdown: Mapping[str, int]
    versions: Mapping[str, str]
    warning: str = ""
    """Why a plan that fits may still run out of memory; empty if it is not marginal."""
    available_bytes: int = 0
    """Bytes of a CPU's limit that are free at this moment; 0 on other devices."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``."""
        values = {"fits": self.fits, "marginal": self.marginal, "peak_bytes": self.peak_bytes,
                  "limit_bytes": self.limit_bytes, "devices": self.devices, "source": self.source,
                  "reasons": list(self.reasons), "breakdown": dict(self.breakdown), "versions": dict(self.versions)}
        return values | {"available_bytes": self.available_bytes} if self.available_bytes else values


def memory_verdict(inspection: "Inspection", device: DeviceFacts, memory: HostMemory | None = None) -> Verdict:
    """Compares a program's peak with the device's limit and, on a CPU, with the free memory.

    Args:
        inspection: of the program.
        device: that it would run on.
        memory: of this machine; read now if it is not given and the device is the CPU.
    """
    peak, limit = inspection.peak_bytes, device.memory_limit_bytes
    # Other processes share a CPU's memory, and their part changes; an accelerator is taken to be the run's alone.
    memory = (memory or host_memory()) if device.platform == "cpu" else None
    # In a control group the machine may have more free than this process may take.
    free = limit if memory is None else min(limit, memory.available_bytes)
    fits = peak <= free
    share = CPU_MARGINAL_SHARE if device.platform == "cpu" else MARGINAL_SHARE
    marginal = fits and peak > share * free
    of_limit = f"{gib(peak)} of {gib(limit)} a device ({inspection.source}; limit from {device.memory_limit_source})"
    of_free = (f"{gib(peak)} of {gib(free)} that are free now ({inspection.source}; "
               f"{memory.available_source if memory else ''}; {gib(limit)} in all)")
    if peak > limit:
        first = f"does not fit: {of_limit}"
    elif not fits:
        first = f"does not fit now: {of_free}"
    elif marginal:
        first = f"fits, but marginally: {of_limit if peak > share * limit else of_free}"
    else:
        first = f"fits: {of_limit}"
    warning = (f"marginal: less than {percent(1 - share, 0)} is left, as far as allocators differ from compilers; it "
               "may run out of memory") if marginal else ""
    reasons = [first, *filter(None, [warning])]
    # Sums of the others would always be the largest part.
    if parts := {name: size for name, size in inspection.breakdown.items() if name not in TOTAL_ENTRIES}:
        largest = max(parts, key=lambda name: parts[name])
        reasons.append(f"largest part: {largest}, {gib(parts[largest])}")
    return Verdict(fits=fits, marginal=marginal, peak_bytes=peak, limit_bytes=limit, devices=device.count,
                   source=inspection.source, reasons=tuple(reasons), breakdown=inspection.breakdown,
                   versions=inspection.versions, warning=warning,
                   available_bytes=memory.available_bytes if memory else 0)


def verdict_remarks(recipe: "Recipe", target: "Target", inspection: "Inspection", batch: "ProgramShape") -> list[str]:
    """Sentences next to the verdict about a program's ``batch``: where it comes from, and what it does not cover."""
    remarks = []
    if inspection.refused:
        remarks.append(f"the compiler refused: {inspection.refused}")
    elif inspection.source == "compiled" and inspection.tokens_per_device:
        remarks.append(f"compiler bound; each device's program takes tokens {list(inspection.tokens_per_device)} of "
                       f"the global batch {list(batch)}")
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
