"""Does the step fit the device it would run on: a verdict with its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Inspection
from workings.hardware.device import DeviceFacts

MARGINAL_SHARE = 0.9
"""Above this share of the limit a fitting plan is called marginal: compilers and allocators differ by some percent."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a compiler says about the run's own step, against what the device offers. Bytes are per device."""

    fits: bool
    marginal: bool
    peak_bytes: int
    limit_bytes: int
    devices: int
    source: str
    reasons: tuple[str, ...]
    breakdown: Mapping[str, int]
    versions: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The verdict with the keys that `plan --json` promises."""
        return {"fits": self.fits, "marginal": self.marginal, "peak_bytes": self.peak_bytes,
                "limit_bytes": self.limit_bytes, "devices": self.devices, "source": self.source,
                "reasons": list(self.reasons), "breakdown": dict(self.breakdown), "versions": dict(self.versions)}


def judge(inspection: Inspection, device: DeviceFacts) -> Verdict:
    """Compare a step's peak with the device's limit."""
    share = inspection.peak_bytes / device.memory_limit_bytes
    fits = share <= 1.0
    marginal = fits and share > MARGINAL_SHARE
    relation = "fits, but marginally" if marginal else "fits" if fits else "does not fit"
    largest = max(inspection.breakdown, key=lambda name: inspection.breakdown[name])
    reasons = (
        f"{relation}: {gib(inspection.peak_bytes)} of {gib(device.memory_limit_bytes)} a device "
        f"({inspection.source}; limit from {device.memory_limit_source})",
        f"largest part: {largest}, {gib(inspection.breakdown[largest])}",
    )
    return Verdict(fits=fits, marginal=marginal, peak_bytes=inspection.peak_bytes,
                   limit_bytes=device.memory_limit_bytes, devices=device.count, source=inspection.source,
                   reasons=reasons, breakdown=inspection.breakdown, versions=inspection.versions)


def gib(count: int) -> str:
    """Bytes for people: GiB from one GiB on, MiB below."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
